#!/bin/sh
# Runs inside the container build, last: takes away what an unprivileged user could use, and what the build left.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# Programs whose purpose is another user's rights or a later time, when a base image brought them.
for name in sudo doas at cron cron-daemon-common systemd-cron anacron pkexec policykit-1 openssh-server openssh-client uidmap; do
    if dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -q '^installed$'; then
        apt-get -q purge -y "$name"
    fi
done

# No setuid, setgid or file-capability program is left anywhere: the student's only way to other rights would be one.
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
find / -xdev -type d -perm /6000 -exec chmod a-s {} +
python3 - <<'END'
import os
for top, names, files in os.walk("/"):
    names[:] = [name for name in names if os.path.join(top, name) not in ("/proc", "/sys", "/dev")]
    for name in names + files:
        path = os.path.join(top, name)
        for attribute in os.listxattr(path, follow_symlinks=False):
            if attribute == "security.capability" or attribute.startswith("system.posix_acl_"):
                os.removexattr(path, attribute, follow_symlinks=False)
END

# No range of further uids, no password of anybody.
for name in /etc/subuid /etc/subgid; do : >"$name"; done
rm -f /etc/subuid- /etc/subgid- /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow-
sed -i 's/^\([^:]*\):[^!*:][^:]*:/\1:!:/; s/^\([^:]*\)::/\1:!:/' /etc/shadow

# Bytecode that is valid whatever the time of its source: every file of an image gets the same one, and no student can
# write bytecode beside a library.
python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3*

# The day of the build is not part of the image.
sed -i 's/^\(student:[^:]*\):[0-9]*:/\1:19675:/' /etc/shadow

# What the build left: package lists, archives, logs, histories, keys, credentials and where packages come from (a
# machine has no network, and the address of a private mirror may carry a password).
apt-get -q clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache \
    /var/log/* /var/backups/* /var/tmp/* /var/mail/* /var/spool/cron \
    /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/apt/apt.conf \
    /etc/apt/apt.conf.d/*proxy* /etc/ssh /etc/cron* /etc/machine-id /var/lib/dbus/machine-id /var/lib/systemd/random-seed \
    /usr/sbin/policy-rc.d /root_data
find /tmp -mindepth 1 -maxdepth 1 ! -name karotte-build -exec rm -rf {} +
find /root -mindepth 1 -maxdepth 1 -exec rm -rf {} +
find / -xdev \( -name '.*_history' -o -name .netrc -o -name .pgpass -o -name .git-credentials -o -name 'id_rsa*' -o -name 'id_ed25519*' \) \
    -type f -delete
find / -xdev -type d -name __pycache__ -path '/tmp/*' -exec rm -rf {} +
rm -rf /usr/share/doc/* /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/lintian

# Nothing is writable for everybody but the two directories that must be; the machine mounts its own over them.
find / -xdev ! -type l ! -path '/proc/*' ! -path '/sys/*' ! -path '/dev/*' ! -path /tmp ! -path /var/tmp -perm -0002 -exec chmod o-w {} +
chmod 1777 /tmp /var/tmp
chmod 0700 /root
# Nothing of the student's is outside its home; what a base image gave to uid 1000 becomes root's.
find / -xdev ! -path '/proc/*' ! -path '/sys/*' ! -path '/dev/*' ! -path '/workdir*' \( -uid 1000 -o -gid 1000 \) -exec chown -h root:root {} +

# Mount points that the machine needs on a read-only root.
for name in /proc /sys /dev /run /tmp /workdir; do test -d "$name" || mkdir "$name"; done
