# the system disk, the kernel and its memory disk

if [ -z "${INSIDE-}" ]; then
	[ "$(id -u)" = 0 ] && user= || user="--map-root-user --map-auto"
	INSIDE=1 exec unshare $user --mount --propagation private -- sh -eu "$0"
fi

rm -rf system memory
mkdir -p system memory/bin memory/dev memory/modules memory/system
tar --extract --file packages.tar --directory system --no-same-owner --exclude './dev/*'

guest=$(dpkg-query --admindir=system/var/lib/dpkg --show --showformat '${Version}' libwine)
host=$(dpkg-query --show --showformat '${Version}' libwine)
if [ "$guest" != "$host" ]; then
	echo "the guest's Wine is $guest, the host's $host: drive C, made with the one, would not suit the other" >&2
	exit 1
fi

# The memory disk holds every module: none is left on the system disk.
release=$(ls system/lib/modules)
while read -r module; do
	chroot system modprobe --set-version "$release" --show-depends "$module"
done <"$RECIPE/modules" | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >modules
while read -r file; do
	cp "system$file" memory/modules/
	basename "$file" >>memory/modules/order
done <modules
cp system/bin/busybox memory/bin/
install -m 755 "$RECIPE/guest/initrd-init" memory/init
(cd memory && find . | LC_ALL=C sort | bin/busybox cpio -o -H newc) | gzip -n -1 >initrd
cp system/boot/vmlinuz-"$release" vmlinuz
rm -rf system/boot/* system/lib/modules/* system/var/lib/apt/lists/* system/var/cache/* system/var/log/*

cp -r "$RECIPE/guest" system/legacyproof
cp -r "$RECIPE/xkb" system/legacyproof/xkb
chmod -R u=rwX,go=rX system/legacyproof
(cd system/legacyproof && chmod 755 init desktop windows shutdown fsfreeze-hook acpi/PWRF/00000080)
sed -i "s/@WIDTH@/$WIDTH/g; s/@HEIGHT@/$HEIGHT/g" system/legacyproof/xorg.conf
cp environment system/legacyproof/environment
ln -sf /legacyproof/shutdown system/sbin/shutdown
# The agent writes a clock that it sets to the hardware's as well, which takes a second or two and helps nobody here.
ln -sf /bin/true system/sbin/hwclock
ln -sfn "/usr/share/zoneinfo/$TIMEZONE" system/etc/localtime
echo "$TIMEZONE" >system/etc/timezone

mkdir -p system/mnt/c system/prefix/dosdevices
cp prefix/*.reg system/prefix/
ln -s /mnt/c system/prefix/drive_c
ln -s /mnt/c system/prefix/dosdevices/c:
# The versions were compared above: Wine need not look for itself at each start whether the drive is up to date.
echo disable >system/prefix/.update-timestamp

rm -f system.raw
truncate -s 2G system.raw
mkfs.ext4 -q -F -L system -J size=16 -d system system.raw
qemu-img convert -f raw -O qcow2 -c -o compression_type=zstd system.raw system.qcow2.new
rm -rf system.raw system memory
mv system.qcow2.new system.qcow2
cp "$RECIPE/vnc-keymap" vnc-keymap
