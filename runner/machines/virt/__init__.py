"""Virtual machines through libvirt: the parts that the provider ``runner/machines/libvirt.py`` is made of."""
