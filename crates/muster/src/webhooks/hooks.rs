//! Who decides when a hook is asked; which hooks there are is what is installed.

use muster_install::hooks::HOOKS;
use muster_jobset::admission::{Answer, Asked, default_jobset, mutate_pod, validate_jobset, validate_pod};

/// Decides about a write.
pub type Decide = fn(&Asked<'_>) -> Answer;

/// One for each hook, in their order.
const DECIDE: [(&str, Decide); HOOKS.len()] = [
    ("/mutate-jobset-x-k8s-io-v1alpha2-jobset", default_jobset),
    ("/validate-jobset-x-k8s-io-v1alpha2-jobset", validate_jobset),
    ("/mutate--v1-pod", mutate_pod),
    ("/validate--v1-pod", validate_pod),
];

/// The one who decides for the hook of this number.
pub fn decide(hook: usize) -> Decide {
    DECIDE[hook].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_has_one_who_decides() {
        assert_eq!(HOOKS.each_ref().map(|hook| hook.path), DECIDE.map(|(path, _)| path));
    }
}
