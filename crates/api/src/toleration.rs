//! Tolerations: which taints a pod tolerates, and for how long.

use std::time::Duration;

use muster_tree::{Text, Tree};

use crate::node::{Taint, TaintEffect};
use crate::paths::{pod, toleration as path};

/// One toleration of a pod or of a device request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    key: Text,
    exists: bool,
    value: Text,
    effect: Option<TaintEffect>,
    seconds: Option<i64>,
}

impl Toleration {
    /// All tolerations of a pod.
    #[must_use]
    pub fn all_of(tree: &Tree) -> Vec<Toleration> {
        tree.items_at(pod::TOLERATIONS).iter().map(Toleration::of).collect()
    }

    /// Reads a toleration of a pod or of a device request.
    #[must_use]
    pub fn of(tree: &Tree) -> Toleration {
        Toleration {
            key: tree.text_at(path::KEY),
            exists: tree.str_at(path::OPERATOR) == "Exists",
            value: tree.text_at(path::VALUE),
            effect: TaintEffect::of(tree.str_at(path::EFFECT)),
            seconds: tree.int_at(path::SECONDS),
        }
    }

    /// Returns whether this toleration tolerates a taint, by the rules of upstream's `ToleratesTaint`.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        // An absent effect matches all effects.
        let effect = self.effect.is_none_or(|effect| effect == taint.effect);
        // An empty key with operator Exists tolerates every taint.
        let key = (self.key.is_empty() && self.exists) || self.key == taint.key;
        effect && key && (self.exists || self.value == taint.value)
    }
}

/// How long a pod may stay on a node with a `NoExecute` taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TolerationPeriod {
    /// This long after the taint was added.
    For(Duration),
    /// As long as the pod runs.
    Forever,
}

/// How long these tolerations let a pod stay on a node with this taint: the shortest matching `tolerationSeconds`.
#[must_use]
pub fn toleration_period(tolerations: &[Toleration], taint: &Taint) -> TolerationPeriod {
    let mut that_do = tolerations.iter().filter(|it| it.tolerates(taint)).peekable();
    if that_do.peek().is_none() {
        return TolerationPeriod::For(Duration::ZERO);
    }
    let seconds = that_do.filter_map(|it| it.seconds).min();
    seconds.map_or(TolerationPeriod::Forever, |s| {
        TolerationPeriod::For(Duration::from_secs(s.max(0).unsigned_abs()))
    })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn stays() {
        let taint = Taint { key: "k".into(), value: "v".into(), effect: TaintEffect::NoExecute };
        let secs = |n| TolerationPeriod::For(Duration::from_secs(n));
        for (about, list, want) in [
            ("no toleration", tree!([]), secs(0)),
            ("another key", tree!([{"key": "x", "operator": "Exists"}]), secs(0)),
            ("another value", tree!([{"key": "k", "value": "w"}]), secs(0)),
            ("another effect", tree!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), secs(0)),
            ("everything, for ever", tree!([{"operator": "Exists"}]), TolerationPeriod::Forever),
            ("a while", tree!([{"key": "k", "value": "v", "tolerationSeconds": 300}]), secs(300)),
            (
                "the shortest of those that say",
                tree!([{"operator": "Exists"}, {"key": "k", "operator": "Exists", "tolerationSeconds": 5},
                    {"key": "k", "value": "v", "tolerationSeconds": 9}]),
                secs(5),
            ),
            ("less than none", tree!([{"operator": "Exists", "tolerationSeconds": -1}]), secs(0)),
        ] {
            let pod = tree!({"spec": {"tolerations": list}});
            assert_eq!(toleration_period(&Toleration::all_of(&pod), &taint), want, "{about}");
        }
    }
}
