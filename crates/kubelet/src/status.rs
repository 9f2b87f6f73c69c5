//! The `Status` of a command on the error channel.

use muster_tree::{Tree, tree};

pub(crate) fn success() -> Tree {
    tree!({"metadata": {}, "status": "Success"})
}

/// The command exited with this code.
pub(crate) fn exited(code: i32) -> Tree {
    if code == 0 {
        return success();
    }
    tree!({
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// The command could not be run, or its exit is unknown.
pub(crate) fn failed(why: &str) -> Tree {
    let why = format!("Internal error occurred: {why}");
    tree!({
        "metadata": {},
        "status": "Failure",
        "reason": "InternalError",
        "message": &why,
        "details": {"causes": [{"message": &why}]},
        "code": 500,
    })
}
