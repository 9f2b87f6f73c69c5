//! Fields of a TrainJob.

use muster_api::definition::{Part, atoms, int32, int64, keyed, object, text, truth};
use muster_api::train::words::{CLUSTER_TRAINING_RUNTIME, CONTROLLER, GROUP, MULTIKUEUE};

use super::patch::patch;
use super::status::status;
use super::{NAME_MAX, bare, core, env, fixed, name};

/// The longest name of a TrainJob: names of what it is made into begin with it.
const JOB_NAME_MAX: i64 = 63;
/// Words of a command.
const WORDS_MAX: i64 = 128;
/// The longest of them: whole programs are passed so.
const WORD_MAX: i64 = 1_048_576;
const IMAGE_MAX: i64 = 500;
const URI_MAX: i64 = 2048;
/// Those who change runtimes.
const PATCHES_MAX: i64 = 16;

const LABEL: &str = "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')";
const URI: &str = "size(self) == 0 || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')";

/// A TrainJob.
pub(in super::super) fn train_job() -> Part {
    let short = format!("size(self.metadata.name) <= {JOB_NAME_MAX}");
    bare()
        .and("spec", spec().about("What is trained, and by which runtime."))
        .and("status", status().about("How the training fares; written by its controller."))
        .about("A TrainJob is one training, run as its runtime says.")
        .rule(LABEL, "metadata.name must be an RFC 1035 DNS label: it begins with a letter and has no dots")
        .rule(&short, "metadata.name must be no more than 63 characters")
}

fn spec() -> Part {
    let managers = format!("self in ['{CONTROLLER}', '{MULTIKUEUE}']");
    let only = format!("ManagedBy must be {CONTROLLER} or {MULTIKUEUE}");
    let initializers = object([
        ("dataset", initializer().about("The data set.")),
        ("model", initializer().about("The model that the training begins with.")),
    ]);
    let spec = object([
        ("runtimeRef!", fixed(runtime_ref()).about("The runtime that says how to train.")),
        ("initializer", fixed(initializers).about("What is fetched before the training.")),
        ("trainer", fixed(trainer()).about("What of the trainer is other than in the runtime.")),
        (
            "runtimePatches",
            keyed("manager", patch())
                .max_items(PATCHES_MAX)
                .about("Changes to the Jobs and pods of the runtime, each by the manager that wants them."),
        ),
        ("suspend", truth().default(false).about("Whether the training is held.")),
        (
            "activeDeadlineSeconds",
            int64().min(1).about("Seconds that the training may take before it fails."),
        ),
        (
            "ttlSecondsAfterFinished",
            int32()
                .min(0)
                .about("Seconds after its end until the TrainJob is deleted; left out, it is kept."),
        ),
        (
            "managedBy",
            fixed(text().max_length(NAME_MAX).default(CONTROLLER).rule(&managers, &only))
                .about("The controller in charge."),
        ),
    ]);
    frozen(frozen(spec, "activeDeadlineSeconds"), "ttlSecondsAfterFinished")
}

/// A field that may neither change nor appear nor vanish: a rule at the field itself would not see the latter two.
fn frozen(spec: Part, field: &str) -> Part {
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    spec.rule_about(field, &rule, super::IMMUTABLE)
}

fn runtime_ref() -> Part {
    object([
        ("name!", name().about("The name of the runtime.")),
        ("apiGroup", text().max_length(NAME_MAX).default(GROUP).about("The group of its kind.")),
        (
            "kind",
            text()
                .max_length(NAME_MAX)
                .default(CLUSTER_TRAINING_RUNTIME)
                .about("ClusterTrainingRuntime, or TrainingRuntime for one of the namespace."),
        ),
    ])
}

fn initializer() -> Part {
    let uri = text().max_length(URI_MAX).rule(URI, "storageUri must be a valid URI, as s3://bucket/path");
    object([
        ("storageUri", uri.about("Where it is, as s3://bucket/path.")),
        ("env", env().about("Environment variables of the initializer.")),
        ("secretRef", core("LocalObjectReference").about("A Secret with the credentials for it.")),
    ])
}

fn trainer() -> Part {
    let words = || atoms(text().max_length(WORD_MAX)).max_items(WORDS_MAX);
    object([
        ("image", text().max_length(IMAGE_MAX).about("The image of the trainer.")),
        ("command", words().about("What is run instead of the entry point of the image.")),
        ("args", words().about("Arguments of the command.")),
        ("env", env().about("Environment variables of the trainer.")),
        ("numNodes", int32().min(0).about("How many pods train together.")),
        ("resourcesPerNode", core("ResourceRequirements").about("Resources of each of them.")),
        (
            "numProcPerNode",
            int32().rule("self >= 1", "numProcPerNode must be >= 1").about("Processes in each of them."),
        ),
    ])
}
