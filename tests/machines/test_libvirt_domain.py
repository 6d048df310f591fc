"""The XML of a domain: what a guest needs, nothing that could be injected, and the tag that makes it ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from runner.machines.virt.domain_xml import Domain, DomainTag, Hardware, Memory, Screen, read_tag, xml_of

QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
DOMAIN = Domain(
    name="libvirt-000000000000",
    tag=DomainTag("campaign-1", "run-1", "0123456789abcdef", "fedcba9876543210"),
    hardware=Hardware(
        "qemu", "pc-q35-7.2", 1, 512, windows=False, kernel=Path("/k"), initrd=Path("/i"), cmdline="quiet"
    ),
    disks=((Path("/m/vda.qcow2"), "vda"), (Path("/m/vdb.qcow2"), "vdb")),
    screen=Screen(5999, "password", "/keys"),
    agent=Path("/m/agent"),
    uuid="e2d5b6f8-0000-4000-8000-000000000000",
)


def parsed(domain: Domain) -> ElementTree.Element:
    return ElementTree.fromstring(xml_of(domain))


TAGGED = xml_of(DOMAIN)


def test_the_tag_reads_back() -> None:
    assert read_tag(TAGGED) == DOMAIN.tag


@pytest.mark.parametrize(
    "xml",
    [
        "<domain/>", "", "no xml", "<domain><metadata/></domain>",
        TAGGED.replace("urn:legacyproof:machine:1", "urn:another"),
        TAGGED.replace(f' home="{DOMAIN.tag.home}"', ""),
        TAGGED.replace(DOMAIN.tag.runner, "4711"),
        TAGGED.replace(DOMAIN.tag.runner, "../../../etc/pas"),
        TAGGED.replace(DOMAIN.tag.home, "x"),
        TAGGED.replace('campaign="campaign-1"', 'campaign="[red]"'),
        TAGGED.replace('run="run-1"', 'run="run-1" more="1"'),
    ],
)  # fmt: skip
def test_what_does_not_carry_the_whole_tag_is_not_ours(xml: str) -> None:
    assert read_tag(xml) is None


def test_there_is_no_network_card() -> None:
    assert parsed(DOMAIN).find("./devices/interface") is None


def test_the_screen_asks_for_a_password_and_listens_on_this_host_only() -> None:
    graphics = parsed(DOMAIN).find("./devices/graphics")
    assert graphics is not None
    assert (graphics.get("listen"), graphics.get("port"), graphics.get("passwd")) == ("127.0.0.1", "5999", "password")


def test_emulation_leaves_out_smap_of_which_wine_dies() -> None:
    feature = parsed(DOMAIN).find("./cpu/feature")
    assert feature is not None
    assert feature.attrib == {"policy": "disable", "name": "smap"}
    assert parsed(replace(DOMAIN, hardware=replace(DOMAIN.hardware, accelerator="kvm"))).find("./cpu/feature") is None


def test_whatever_stands_in_a_path_stays_a_path() -> None:
    evil = Path("/m/<&\"'>,share=on/ä")
    root = parsed(replace(DOMAIN, disks=((evil, "vda"),), memory=Memory(evil, shared=False, awaited=True)))
    source = root.find("./devices/disk/source")
    assert source is not None
    assert source.get("file") == str(evil)
    arguments = [each.get("value", "") for each in root.findall(f"./{QEMU}commandline/{QEMU}arg")]
    backend = json.loads(arguments[arguments.index("-object") + 1])
    assert (backend["mem-path"], backend["share"], backend["size"]) == (str(evil), False, 512 << 20)
    assert arguments[-2:] == ["-incoming", "defer"]


def test_a_clone_has_the_devices_of_its_checkpoint() -> None:
    def devices(domain: Domain) -> list[tuple[str, str | None, str | None]]:
        found = parsed(domain).findall("./devices/*")
        return [(each.tag, each.get("type"), each.get("model")) for each in found]

    gold = replace(DOMAIN, memory=Memory(Path("/c/memory"), shared=True, awaited=False))
    clone = replace(
        DOMAIN,
        name="libvirt-111111111111",
        disks=((Path("/n/vda.qcow2"), "vda"), (Path("/n/vdb.qcow2"), "vdb")),
        screen=replace(DOMAIN.screen, port=6000, password="other"),
        memory=Memory(Path("/c/memory"), shared=False, awaited=True),
    )
    assert devices(gold) == devices(clone)


def test_windows_gets_local_time_its_own_boot_loader_and_what_it_asks_for() -> None:
    hardware = Hardware("kvm", "pc-q35-7.2", 4, 8192, firmware="uefi", tpm=True, timezone="Europe/Berlin")
    root = parsed(replace(DOMAIN, hardware=hardware))
    clock, system = root.find("clock"), root.find("os")
    assert clock is not None
    assert clock.attrib == {"offset": "timezone", "timezone": "Europe/Berlin"}
    assert system is not None
    assert system.get("firmware") == "efi"
    assert system.find("kernel") is None
    assert root.find("./devices/tpm/backend[@type='emulator']") is not None
    assert root.find("./features/hyperv/relaxed[@state='on']") is not None
