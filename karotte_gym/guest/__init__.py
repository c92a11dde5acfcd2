"""What runs as root inside the machine. Standard library only, Python 3.11, imports nothing of ours outside itself."""
