//! Every field of every kind.

mod job;
mod patch;
mod runtime;
mod status;

use muster_api::definition::{Part, keyed, kubernetes, object, text};

pub(super) use job::train_job;
pub(super) use runtime::runtime;

/// Variables of one container.
const ENV_MAX: i64 = 128;
/// The longest name.
const NAME_MAX: i64 = 253;

const SAME: &str = "self == oldSelf";
const IMMUTABLE: &str = "field is immutable";

/// A whole object without its spec.
fn bare() -> Part {
    object([
        ("apiVersion", text().about("The group and version of this object.")),
        ("kind", text().about("The kind of this object.")),
        ("metadata", object([])),
    ])
}

/// Once set, it stays as it is.
fn fixed(part: Part) -> Part {
    part.rule(SAME, IMMUTABLE)
}

fn name() -> Part {
    text().length(1, NAME_MAX)
}

fn env() -> Part {
    keyed("name", core("EnvVar")).max_items(ENV_MAX)
}

/// A type of the core group.
fn core(name: &str) -> Part {
    kubernetes(&format!("io.k8s.api.core.v1.{name}"))
}

/// What templates say of themselves.
fn metadata() -> Part {
    kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}
