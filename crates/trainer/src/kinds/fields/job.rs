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
        .and("spec", spec())
        .and("status", status())
        .rule(LABEL, "metadata.name must be an RFC 1035 DNS label: it begins with a letter and has no dots")
        .rule(&short, "metadata.name must be no more than 63 characters")
}

fn spec() -> Part {
    let managers = format!("self in ['{CONTROLLER}', '{MULTIKUEUE}']");
    let only = format!("ManagedBy must be {CONTROLLER} or {MULTIKUEUE}");
    let spec = object([
        ("runtimeRef!", fixed(runtime_ref())),
        ("initializer", fixed(object([("dataset", initializer()), ("model", initializer())]))),
        ("trainer", fixed(trainer())),
        ("runtimePatches", keyed("manager", patch()).max_items(PATCHES_MAX)),
        ("suspend", truth().default(false)),
        ("activeDeadlineSeconds", int64().min(1)),
        ("ttlSecondsAfterFinished", int32().min(0)),
        ("managedBy", fixed(text().max_length(NAME_MAX).default(CONTROLLER).rule(&managers, &only))),
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
        ("name!", name()),
        ("apiGroup", text().max_length(NAME_MAX).default(GROUP)),
        ("kind", text().max_length(NAME_MAX).default(CLUSTER_TRAINING_RUNTIME)),
    ])
}

fn initializer() -> Part {
    let uri = text().max_length(URI_MAX).rule(URI, "storageUri must be a valid URI, as s3://bucket/path");
    object([("storageUri", uri), ("env", env()), ("secretRef", core("LocalObjectReference"))])
}

fn trainer() -> Part {
    let words = || atoms(text().max_length(WORD_MAX)).max_items(WORDS_MAX);
    object([
        ("image", text().max_length(IMAGE_MAX)),
        ("command", words()),
        ("args", words()),
        ("env", env()),
        ("numNodes", int32().min(0)),
        ("resourcesPerNode", core("ResourceRequirements")),
        ("numProcPerNode", int32().rule("self >= 1", "numProcPerNode must be >= 1")),
    ])
}
