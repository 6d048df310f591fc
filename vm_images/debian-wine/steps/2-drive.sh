# drive C on a disk of its own
#
# An NTFS volume filled through ntfs-3g, then put behind a partition table. In a mount namespace: however this ends, no mount
# is left behind.

if [ -z "${INSIDE-}" ]; then
	[ "$(id -u)" = 0 ] && user= || user="--map-root-user --map-auto"
	INSIDE=1 exec unshare $user --mount --propagation private -- sh -eu "$0"
fi

sectors=2048 # before the partition: 1 MiB
mebibytes=2048
rm -rf volume.raw c.raw mnt
x86_64-w64-mingw32-gcc -std=c11 -Os -Wall -Wextra -Werror -municode -mwindows -s -Wl,--no-insert-timestamp \
	-o resident.exe "$RECIPE/resident.c" -luser32

truncate -s $(((mebibytes - 2) * 1048576)) volume.raw
mkntfs --force --quick --quiet --label SYSTEM --partition-start $sectors --heads 255 --sectors-per-track 63 \
	--sector-size 512 --cluster-size 4096 volume.raw
mkdir mnt
ntfs-3g -o noatime,big_writes,windows_names,permissions,streams_interface=xattr "$PWD/volume.raw" mnt
cp -r --preserve=timestamps prefix/drive_c/. mnt/
# The profile's folders are links into the host's home where Wine made them; here they are folders.
find mnt -type l | while read -r link; do
	rm "$link"
	mkdir "$link"
done
cp resident.exe mnt/legacyproof/
umount mnt

truncate -s ${mebibytes}M c.raw
sgdisk --new 1:$sectors:0 --typecode 1:0700 --change-name 1:C c.raw >/dev/null
dd if=volume.raw of=c.raw bs=1M seek=1 conv=sparse,notrunc status=none
rm volume.raw
qemu-img convert -f raw -O qcow2 c.raw c.qcow2.new
rm c.raw
mv c.qcow2.new c.qcow2
