//! The fields of the Trainer CRDs.

mod job;
mod patch;
mod runtime;
mod status;

use muster_api::crd_schema::{FieldSchema, kubernetes, map_list, object, string};

pub(super) use job::train_job;
pub(super) use runtime::runtime;

/// Maximum number of environment variables of a container.
const ENV_MAX: i64 = 128;
const NAME_MAX: i64 = 253;

const SAME: &str = "self == oldSelf";
const IMMUTABLE: &str = "field is immutable";

/// The root of a CRD schema, without spec and status.
fn bare() -> FieldSchema {
    object([
        ("apiVersion", string().description("The group and version of this object.")),
        ("kind", string().description("The kind of this object.")),
        ("metadata", object([])),
    ])
}

/// A field that is immutable once it is set.
fn fixed(part: FieldSchema) -> FieldSchema {
    part.rule(SAME, IMMUTABLE)
}

fn name() -> FieldSchema {
    string().length(1, NAME_MAX)
}

fn env() -> FieldSchema {
    map_list("name", core("EnvVar")).max_items(ENV_MAX)
}

/// A reference to a type of the core API group.
fn core(name: &str) -> FieldSchema {
    kubernetes(&format!("io.k8s.api.core.v1.{name}"))
}

/// The metadata of a template.
fn metadata() -> FieldSchema {
    kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}
