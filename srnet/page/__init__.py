"""A local page with two classifiers side by side: type a pair, step through the rows on which they differ."""

from typing import TYPE_CHECKING

from srnet.lazy import exports

if TYPE_CHECKING:
    from srnet.page.comparison import Comparison
    from srnet.page.nearest import TrainingRows
    from srnet.page.pair import PairView
    from srnet.page.run import PageOptions, open_page

__all__ = ["Comparison", "PageOptions", "PairView", "TrainingRows", "open_page"]

_RUN = dict.fromkeys(("PageOptions", "open_page"), "run")
__getattr__ = exports(__name__, {**_RUN, "Comparison": "comparison", "PairView": "pair", "TrainingRows": "nearest"})
