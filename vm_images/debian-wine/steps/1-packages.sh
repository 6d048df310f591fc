# fetching and unpacking Debian's packages
#
# From where this computer gets its own, so that the guest's Wine is the host's. Without superuser rights mmdebstrap works in a
# user namespace; the archive it writes is the same.

sources=$(sh -eu "$RECIPE/archives")
release=$(. /etc/os-release && echo "$VERSION_CODENAME")

set -- --variant=minbase --format=tar --components=main
if [ "$(id -u)" = 0 ]; then
	set -- "$@" --mode=root
elif command -v newuidmap >/dev/null && grep -q "^$(id -un):" /etc/subuid; then
	set -- "$@" --mode=unshare
else
	echo "this needs superuser rights, or the package uidmap and a range of user numbers for $(id -un) in /etc/subuid and /etc/subgid" >&2
	exit 1
fi
proxy=$(apt-config dump --format '%v%n' Acquire::http::Proxy)
[ -z "$proxy" ] || set -- "$@" --aptopt="Acquire::http::Proxy \"$proxy\""
while read -r pattern; do
	set -- "$@" --dpkgopt="path-exclude=$pattern"
done <"$RECIPE/leave-out"

# The guest has a memory disk of its own making: none is built when the kernel's package is installed.
echo "$sources" | INITRD=No mmdebstrap "$@" --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
	--dpkgopt=force-unsafe-io --include="$(paste -sd, "$RECIPE/packages")" "$release" packages.tar.new -
mv packages.tar.new packages.tar
