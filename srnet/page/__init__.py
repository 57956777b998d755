"""A local page with two classifiers side by side: type a pair, step through the rows on which they differ."""

from typing import TYPE_CHECKING

from srnet.lazy import exports

if TYPE_CHECKING:
    from srnet.page.comparison import Comparison
    from srnet.page.nearest import TrainingRows
    from srnet.page.options import PageOptions
    from srnet.page.pair import PairView
    from srnet.page.run import open_page

__all__ = ["Comparison", "PageOptions", "PairView", "TrainingRows", "open_page"]

_WHERE = {"Comparison": "comparison", "PageOptions": "options", "PairView": "pair", "TrainingRows": "nearest"}
__getattr__ = exports(__name__, {**_WHERE, "open_page": "run"})
