//! The CEL environment of rules: functions of CEL and Kubernetes, and the loop counter.

use std::cell::Cell;
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

/// Function that is called in every loop iteration.
pub(super) const STEP: &str = "@step";

/// Type names, to compare with `type()`.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];

thread_local! {
    /// Loop iterations that the validation on this thread has left.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Resets the remaining loop iterations.
pub(super) fn allow_steps(steps: u64) {
    STEPS.set(steps);
}

/// Returns whether no loop iterations are left.
pub(super) fn is_exhausted() -> bool {
    STEPS.get() == 0
}

/// The environment, created once per process.
pub(super) fn root() -> &'static Context<'static> {
    static ROOT: LazyLock<Context<'static>> = LazyLock::new(make);
    &ROOT
}

fn make() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function(STEP, step);
    context.add_function("type", |value: Value| -> ResolveResult { Ok(type_name(&value)) });
    context.add_function("dyn", |value: Value| -> ResolveResult { Ok(value) });
    for name in TYPE_NAMES {
        context.add_variable_from_value(name, text(name));
    }
    context
}

fn step() -> Result<bool, ExecutionError> {
    match STEPS.get().checked_sub(1) {
        Some(left) if left > 0 => {
            STEPS.set(left);
            Ok(true)
        }
        _ => {
            STEPS.set(0);
            Err(ExecutionError::function_error(STEP, "actual cost limit exceeded"))
        }
    }
}

fn type_name(value: &Value) -> Value {
    text(match value {
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Null => "null_type",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Opaque(other) => other.runtime_type_name(),
        Value::Function(..) => "function",
    })
}

fn text(words: &str) -> Value {
    Value::String(Arc::new(words.to_owned()))
}
