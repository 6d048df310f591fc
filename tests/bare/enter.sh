# Makes a folder the root of everything, and runs a command there: as process 1 of process, mount, IPC and host name namespaces of its
# own, which this is started in. What the command leaves running ends with it, and no mount is left behind. The computer's own files
# are out of reach: the old root is let go of, which chroot would not do, and which lets bubblewrap and user namespaces work inside.
#
# $1: the folder; $2: the command; the rest: folders of this computer, each to be shown read-only below /host.

root=$1
command=$2
shift 2

mount --bind "$root" "$root"
for folder; do
	mkdir -p "$root/host$folder"
	mount --bind "$folder" "$root/host$folder"
	mount -o remount,bind,ro "$root/host$folder"
done
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
# Devices of a container's: those that every one has, and FUSE; no KVM, no loop devices.
mount -t tmpfs -o mode=755 dev dev
for device in null:3 zero:5 full:7 random:8 urandom:9; do
	mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 dev/tty c 5 0
mknod -m 666 dev/fuse c 10 229
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for number in 0:stdin 1:stdout 2:stderr; do
	ln -s "/proc/self/fd/${number%:*}" "dev/${number#*:}"
done
mount -t tmpfs -o mode=755 run run
hostname bare
mkdir -p .computer
pivot_root . .computer
umount --lazy /.computer
cd /src
# Not by exec: as process 1 the shell takes leave of processes that others leave behind.
status=0
bash -euo pipefail -c "$command" </dev/null || status=$?
exit "$status"
