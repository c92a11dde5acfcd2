"""Pictures that a student looks at: checked by their outer form, passed on as they are, never decoded on the host.

A decoder of pictures is a large parser of hostile bytes, and this process holds the answers and the keys. So the bytes are
read in the machine, as the student; here only what a container says of itself is read, by a few lines for each format
that copy nothing and can't run long. Whoever shows the picture to a model decodes it, elsewhere.
"""

from karotte_gym.tools.pictures.part import MAX_PICTURE_BYTES, ImagePart, picture_of
from karotte_gym.tools.pictures.reading import NoPicture

__all__ = ["MAX_PICTURE_BYTES", "ImagePart", "NoPicture", "picture_of"]
