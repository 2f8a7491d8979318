"""What `drobench run --help` prints, as Hydra would print it.

To list the choices of a group Hydra copies all settings of all plugins, once for each group, which takes longer than
everything else. The names are known here.
"""

import string
from argparse import Namespace

import hydra
from omegaconf import OmegaConf, open_dict

from drobench.app.config import CONFIG_NAME, group_names, hydra_ready
from drobench.registry import Catalogue


def can_tell(typed: Namespace) -> bool:
    """Whether nothing but the help is asked for: no configuration from elsewhere, which only Hydra finds."""
    elsewhere = (typed.config_path, typed.config_name, typed.config_dir, typed.package)
    return bool(typed.help) and not any(elsewhere)


def help_text(typed: Namespace, catalogue: Catalogue) -> str:
    """Return the help for these words; raises what Hydra raises where they cannot be composed."""
    with hydra_ready():
        composed = hydra.compose(CONFIG_NAME, typed.overrides, return_hydra_config=True)
        template = composed.hydra.help.template
        with open_dict(composed):
            del composed["hydra"]
    groups = sorted((group, sorted(names)) for group, names in group_names(catalogue).items())
    return string.Template(template).substitute(
        APP_CONFIG_GROUPS="".join(f"{group}: {', '.join(names)}\n" for group, names in groups),
        CONFIG=OmegaConf.to_yaml(composed, resolve=typed.resolve),
    )
