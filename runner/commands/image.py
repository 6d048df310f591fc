"""``legacyproof image``: the images that machines are made from; building those that a recipe describes."""

from __future__ import annotations

import time

import typer
from rich.table import Table

from contracts.load import ContractError
from runner.commands.terminal import out, say
from runner.machines.base import MachineError
from runner.machines.images import Image, available, find_image
from runner.machines.vm_files import build, vm_files


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    images = typer.Typer(help="Images: what machines are made from.", no_args_is_help=True)
    images.command("build")(image_build)
    images.command("list")(image_list)
    app.add_typer(images, name="image")


def image_build(name: str = typer.Argument(help="Name of an image, as `image list` shows it.")) -> None:
    """Builds a virtual machine's disks from the image's recipe, unless they are there already."""
    begun = time.monotonic()
    made = build(find_image(name), say)
    size = sum(disk.path.stat().st_size for disk in made.disks)
    out.print(f"{name} is ready ({size / 1e9:.1f} GB, {time.monotonic() - begun:.0f} s): {made.disks[0].path.parent}")


def image_list() -> None:
    """Lists the images that there are, and whether machines can be made from them."""
    table = Table("name", "provider", "summary", "state")
    for name in sorted(available()):
        try:
            image = find_image(name)
        except ContractError as error:
            table.add_row(name, "", "", str(error))
            continue
        table.add_row(name, image.manifest.provider, image.manifest.summary, _state(image))
    out.print(table)


def _state(image: Image) -> str:
    if image.manifest.libvirt is None:
        return "made when it is first used"
    try:
        vm_files(image)
    except MachineError as error:
        return str(error)
    return "ready"
