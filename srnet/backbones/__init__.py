"""Pre-trained models: where they come from, how they are loaded, and which layers they have."""

from srnet.backbones.checkpoints import SHIPPED, folder_or_name
from srnet.backbones.head import CLASSIFIER, Head
from srnet.backbones.language_model import has_language_model, load_language_model
from srnet.backbones.layers import classifier_of, in_base, linear_layers
from srnet.backbones.loading import LoadedBackbone, backbone_hash, load_backbone, newly_initialised
from srnet.backbones.own_classifier import OwnClassifier, find_own_classifier, keep_own_classifier

__all__ = [
    "CLASSIFIER", "SHIPPED", "Head", "LoadedBackbone", "OwnClassifier", "backbone_hash", "classifier_of",
    "find_own_classifier", "folder_or_name", "has_language_model", "in_base", "keep_own_classifier", "linear_layers",
    "load_backbone", "load_language_model", "newly_initialised",
]  # fmt: skip
