"""A small convolutional network for images: convolutions with group norms, each halving the image, then one layer.

A group norm looks at one image alone, so that the network is a function of parameters and one row; a batch norm would
not be. Drawn as torch draws its layers.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from torch import nn

from drobench.errors import SettingError, require_positive
from drobench.objective.models import check_widths
from drobench.registry import ModelEntry


@dataclass
class CnnConfig:
    """Settings of a small convolutional network."""

    channels: list[int] = field(default_factory=lambda: [16, 32])
    """Channels after each convolution; every one is followed by a maximum over squares of two by two."""
    kernel: int = 3
    """Width of the convolutions, odd, so that they keep the size of the image."""
    groups: int = 4
    """Groups of the norms, which divide all channels; 0: no norm."""

    def __post_init__(self) -> None:
        check_widths("CnnConfig.channels", self.channels)
        require_positive(self, "kernel")
        if self.kernel % 2 == 0:
            raise SettingError(f"CnnConfig.kernel must be odd; found {self.kernel}. Change `model.kernel=`.")
        if self.groups < 0 or any(self.groups and width % self.groups for width in self.channels):
            raise SettingError(
                f"CnnConfig.groups must divide all channels, {list(self.channels)}, or be 0; found {self.groups}. "
                "Change `model.groups=` or `model.channels=`."
            )


def cnn(config: CnnConfig, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Return the network for images of `(channels, height, width)`."""
    depth, height, width = shape
    halvings = len(config.channels)
    if min(height, width) < 2**halvings:
        raise SettingError(
            f"model.channels has {halvings} entries, and each halves the image; images of {height} by {width} can be "
            f"halved {min(height, width).bit_length() - 1} times. Leave entries out."
        )
    layers: list[nn.Module] = []
    for before, after in pairwise([depth, *config.channels]):
        layers.append(nn.Conv2d(before, after, config.kernel, padding=config.kernel // 2))
        layers += [nn.GroupNorm(config.groups, after)] if config.groups else []
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    left = config.channels[-1] * (height >> halvings) * (width >> halvings)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(left, outputs))


def entry() -> ModelEntry:
    """Return the catalogue entry."""
    return ModelEntry(
        name="cnn",
        summary="Small convolutional network for images.",
        reference="LeCun, Bottou, Bengio, Haffner (1998); Wu, He (2018) for group norms",
        config=CnnConfig,
        factory=cnn,
        needs=frozenset({"images"}),
    )
