# The public names and their modules, for type checkers; `__init__.py` reads them from here, so this is the only list.
# A line is `from MODULE import NAME as NAME, ...` (`as` makes it public); a module is `from srnet import NAME as NAME`.
# fmt: off
# ruff: isort: skip_file

__version__: str

from srnet.experiment.nodes.objectives import CE as CE, PoE as PoE, Reweight as Reweight, ConfReg as ConfReg
from srnet.experiment.nodes.objectives import Distilled as Distilled
from srnet.experiment.nodes.bias import BiasModel as BiasModel, BiasSpec as BiasSpec, WeakModel as WeakModel
from srnet.experiment.nodes.models import Pretrained as Pretrained, FineTuned as FineTuned, Rewind as Rewind
from srnet.experiment.nodes.models import Quantised as Quantised, Evaluate as Evaluate
from srnet.experiment.nodes.training import FineTune as FineTune, Prune as Prune, Trajectory as Trajectory
from srnet.experiment.nodes.training import Moment as Moment
from srnet.experiment.engine import Engine as Engine
from srnet.experiment.store import Store as Store
from srnet.core.device import use_device as use_device
from srnet.pruners.mask_training import MaskTraining as MaskTraining
from srnet.pruners.magnitude import OneShot as OneShot, GradualMagnitude as GradualMagnitude
from srnet.pruners.imp import IMP as IMP, RewoundIMP as RewoundIMP
from srnet.pruners.static import StaticLocal as StaticLocal, StaticShared as StaticShared
from srnet.pruners.movement import Movement as Movement
from srnet.pruners.soft_movement import SoftMovement as SoftMovement
from srnet.pruners.l0 import L0 as L0
from srnet.pruners.wanda import Wanda as Wanda
from srnet.api.attaching import attach as attach, prune_once as prune_once, load_mask as load_mask
from srnet.training.pruning import Pruning as Pruning
from srnet.masks.mask import Mask as Mask
from srnet.masks.targets import Targets as Targets
from srnet.tasks.synthetic import SyntheticTask as SyntheticTask
from srnet.tasks.files import FilesTask as FilesTask
from srnet.tasks.sources import DataFile as DataFile
from srnet.tasks.published import published_task as published_task
from srnet.tasks.pairs import PairFile as PairFile, PairsTask as PairsTask
from srnet.tasks.squad import SquadTask as SquadTask, squad_task as squad_task
from srnet.tasks.synthetic.stereotypes import GrammarTask as GrammarTask
from srnet.tasks.text import TextTask as TextTask
from srnet.tasks.check import check_data as check_data
from srnet.tasks.describe import describe_files as describe_files, write_csv as write_csv
from srnet.tasks.planted import PlantedTask as PlantedTask
from srnet.tasks.planted_files import plant as plant
from srnet.training.settings import TrainingSettings as TrainingSettings
from srnet.models.subnetwork import Subnetwork as Subnetwork
from srnet.models.open import load_subnetwork as load_subnetwork, open_model as open_model
from srnet.models.bank import MaskBank as MaskBank
from srnet.models.formats.merged import save_merged as save_merged
from srnet.core.errors import UserError as UserError
from srnet.recipes.order import Order as Order
from srnet.recipes.tasks import DataOptions as DataOptions
from srnet.api.data import task_from as task_from
from srnet.api.experiments import demo as demo, run as run, run_recipe as run_recipe, reproduce as reproduce
from srnet.api.experiments import claims as claims, claims_until_answered as claims_until_answered
from srnet.recipes.recipe import plan as plan
from srnet.recipes.demo import demo_recipe as demo_recipe
from srnet.recipes.files import load_recipe as load_recipe
from srnet.api.models import finetune as finetune, prune as prune, evaluate as evaluate, bias_model as bias_model
from srnet.api.models import latency as latency, pretrain as pretrain, export_model as export_model
from srnet.api.models import import_mask as import_mask
from srnet.api.surveys import shortcuts as shortcuts
from srnet.bias.survey import Survey as Survey
from srnet.masks.timed import Latency as Latency
from srnet.api.features import shortcut_from as shortcut_from
from srnet.api.biases import fit_bias as fit_bias, FittedBias as FittedBias
from srnet import losses as losses
from srnet.api.speeds import speed as speed
from srnet.timing.pace import Pace as Pace
from srnet.timing.measuring import speed_against_scores as speed_against_scores
from srnet.api.finding import find as find, plan_find as plan_find
from srnet.finding.settings import FindSettings as FindSettings
from srnet.finding.search import Find as Find
from srnet.finding.found import Found as Found
from srnet.audit.run import audit_models as audit_models
from srnet.audit.verdicts import verdict as verdict, Verdicts as Verdicts
from srnet.audit.options import AuditOptions as AuditOptions
from srnet.page.run import open_page as open_page
from srnet.page.options import PageOptions as PageOptions
from srnet.tasks.synthetic.pretrain_settings import PretrainSettings as PretrainSettings
