//! The fields of a TrainJob.

use muster_api::crd_schema::{FieldSchema, atomic_list, boolean, int32, int64, map_list, object, string};
use muster_api::train::consts::{CLUSTER_TRAINING_RUNTIME, CONTROLLER, GROUP, MULTIKUEUE};

use super::patch::patch;
use super::status::status;
use super::{NAME_MAX, bare, core, env, fixed, name};

/// Maximum length of the name of a TrainJob: the names of its objects begin with it.
const JOB_NAME_MAX: i64 = 63;
/// Maximum number of items of a command.
const WORDS_MAX: i64 = 128;
/// Maximum length of an item: commands may contain whole programs.
const WORD_MAX: i64 = 1_048_576;
const IMAGE_MAX: i64 = 500;
const URI_MAX: i64 = 2048;
/// Maximum number of runtimePatches, one per manager.
const PATCHES_MAX: i64 = 16;

const LABEL: &str = "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')";
const URI: &str = "size(self) == 0 || self.matches('^[A-Za-z][A-Za-z0-9+.-]*://.+$')";

pub(in super::super) fn train_job() -> FieldSchema {
    let short = format!("size(self.metadata.name) <= {JOB_NAME_MAX}");
    bare()
        .with_field("spec", spec().description("What is trained, and by which runtime."))
        .with_field("status", status().description("How the training fares; written by its controller."))
        .description("A TrainJob is one training, run as its runtime says.")
        .rule(LABEL, "metadata.name must be an RFC 1035 DNS label: it begins with a letter and has no dots")
        .rule(&short, "metadata.name must be no more than 63 characters")
}

fn spec() -> FieldSchema {
    let managers = format!("self in ['{CONTROLLER}', '{MULTIKUEUE}']");
    let only = format!("ManagedBy must be {CONTROLLER} or {MULTIKUEUE}");
    let initializers = object([
        ("dataset", initializer().description("The data set.")),
        ("model", initializer().description("The model that the training begins with.")),
    ]);
    let spec = object([
        ("runtimeRef!", fixed(runtime_ref()).description("The runtime that says how to train.")),
        ("initializer", fixed(initializers).description("What is fetched before the training.")),
        ("trainer", fixed(trainer()).description("What of the trainer is other than in the runtime.")),
        (
            "runtimePatches",
            map_list("manager", patch()).max_items(PATCHES_MAX).description(
                "Changes to the Jobs and pods of the runtime, each by the manager that wants them.",
            ),
        ),
        ("suspend", boolean().default(false).description("Whether the training is held.")),
        (
            "activeDeadlineSeconds",
            int64().min(1).description("Seconds that the training may take before it fails."),
        ),
        (
            "ttlSecondsAfterFinished",
            int32()
                .min(0)
                .description("Seconds after its end until the TrainJob is deleted; left out, it is kept."),
        ),
        (
            "managedBy",
            fixed(string().max_length(NAME_MAX).default(CONTROLLER).rule(&managers, &only))
                .description("The controller in charge."),
        ),
    ]);
    frozen(frozen(spec, "activeDeadlineSeconds"), "ttlSecondsAfterFinished")
}

/// An immutable field that cannot be added or removed either: a rule at the field itself is not evaluated then.
fn frozen(spec: FieldSchema, field: &str) -> FieldSchema {
    let rule = format!(
        "has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    );
    spec.rule_at(field, &rule, super::IMMUTABLE)
}

fn runtime_ref() -> FieldSchema {
    object([
        ("name!", name().description("The name of the runtime.")),
        ("apiGroup", string().max_length(NAME_MAX).default(GROUP).description("The group of its kind.")),
        (
            "kind",
            string()
                .max_length(NAME_MAX)
                .default(CLUSTER_TRAINING_RUNTIME)
                .description("ClusterTrainingRuntime, or TrainingRuntime for one of the namespace."),
        ),
    ])
}

fn initializer() -> FieldSchema {
    let uri = string().max_length(URI_MAX).rule(URI, "storageUri must be a valid URI, as s3://bucket/path");
    object([
        ("storageUri", uri.description("Where it is, as s3://bucket/path.")),
        ("env", env().description("Environment variables of the initializer.")),
        ("secretRef", core("LocalObjectReference").description("A Secret with the credentials for it.")),
    ])
}

fn trainer() -> FieldSchema {
    let words = || atomic_list(string().max_length(WORD_MAX)).max_items(WORDS_MAX);
    object([
        ("image", string().max_length(IMAGE_MAX).description("The image of the trainer.")),
        ("command", words().description("What is run instead of the entry point of the image.")),
        ("args", words().description("Arguments of the command.")),
        ("env", env().description("Environment variables of the trainer.")),
        ("numNodes", int32().min(0).description("How many pods train together.")),
        ("resourcesPerNode", core("ResourceRequirements").description("Resources of each of them.")),
        (
            "numProcPerNode",
            int32()
                .rule("self >= 1", "numProcPerNode must be >= 1")
                .description("Processes in each of them."),
        ),
    ])
}
