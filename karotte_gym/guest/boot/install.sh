#!/bin/sh
# Runs inside the container build, first: packages, kernel, the student user.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# No documentation: nobody reads it there, and it is a third of the small files.
cat >/etc/dpkg/dpkg.cfg.d/karotte <<'END'
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/lintian/*
END
# A package must not start anything in the build.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

apt-get -q update
apt-get -q install -y --no-install-recommends \
    bash bc busybox-static coreutils diffutils e2fsprogs file findutils gawk grep gzip jq less patch procps \
    psmisc python3 sed tar util-linux xxd xz-utils zstd

# The kernel is unpacked, not installed: no initramfs tools, no bootloader hooks. The cloud flavour has what a virtual
# machine needs (virtio, control groups v2, namespaces, seccomp) and few drivers.
meta=linux-image-cloud-$(dpkg --print-architecture)
package=$(apt-cache depends --no-recommends --no-suggests "$meta" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
test -n "$package"
mkdir -p /tmp/karotte-kernel /usr/lib/karotte-boot
chmod 1777 /tmp/karotte-kernel
(cd /tmp/karotte-kernel && apt-get -q download "$package" && dpkg-deb -x ./*.deb tree)
mv /tmp/karotte-kernel/tree/boot/vmlinuz-* /usr/lib/karotte-boot/vmlinuz
mv /tmp/karotte-kernel/tree/boot/config-* /usr/lib/karotte-boot/config
modules=$(ls -d /tmp/karotte-kernel/tree/lib/modules/* /tmp/karotte-kernel/tree/usr/lib/modules/* 2>/dev/null | head -n 1)
mv "$modules" /usr/lib/karotte-boot/modules
basename "$modules" >/usr/lib/karotte-boot/release
cp /bin/busybox /usr/lib/karotte-boot/busybox
python3 -c 'import sys; print(sys.implementation.cache_tag)' >/usr/lib/karotte-boot/python
rm -rf /tmp/karotte-kernel

# The student. The password is locked; there is no way in but the agent.
groupadd --gid 1000 student
useradd --uid 1000 --gid 1000 --home-dir /workdir --no-create-home --shell /bin/bash --password '!' student
install -d -o student -g student -m 0755 /workdir
