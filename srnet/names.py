"""Names that more than one room must agree on. Imports nothing heavy, so that `srnet --help` stays quick."""

EMBEDDED = "srnet-tiny"
"""The backbone that ships with the package."""

EMBEDDED_OTHER = "srnet-small"
"""The other one: a layer deeper, to ask whether a finding depends on the backbone."""

DOWNLOAD_VARIABLE = "SRNET_DOWNLOAD"
"""Set to 1 to let a hub name be fetched."""
