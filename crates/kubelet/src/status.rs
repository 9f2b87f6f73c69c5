//! How a command ended, as the error channel says it.

use muster_tree::{Tree, tree};

/// It ended well.
pub(crate) fn success() -> Tree {
    tree!({"metadata": {}, "status": "Success"})
}

/// It ended with this code.
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

/// It could not be run, or nobody knows how it ended.
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
