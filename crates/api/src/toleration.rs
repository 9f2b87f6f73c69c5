//! Tolerations: which taints a pod puts up with, and for how long.

use std::time::Duration;

use muster_tree::{Text, Tree};

use crate::node::{Effect, Taint};
use crate::paths::{pod, toleration as path};

/// One toleration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toleration {
    key: Text,
    exists: bool,
    value: Text,
    effect: Option<Effect>,
    seconds: Option<i64>,
}

impl Toleration {
    /// The tolerations of a pod.
    #[must_use]
    pub fn all_of(tree: &Tree) -> Vec<Toleration> {
        tree.items_at(pod::TOLERATIONS).iter().map(Toleration::of).collect()
    }

    /// Reads one; devices have them too.
    #[must_use]
    pub fn of(tree: &Tree) -> Toleration {
        Toleration {
            key: tree.text_at(path::KEY),
            exists: tree.str_at(path::OPERATOR) == "Exists",
            value: tree.text_at(path::VALUE),
            effect: Effect::of(tree.str_at(path::EFFECT)),
            seconds: tree.int_at(path::SECONDS),
        }
    }

    /// Whether it tolerates this taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = self.effect.is_none_or(|effect| effect == taint.effect);
        let key = (self.key.is_empty() && self.exists) || self.key == taint.key;
        effect && key && (self.exists || self.value == taint.value)
    }
}

/// How long a pod may stay on a node with a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// This long from when the taint was added.
    For(Duration),
    /// For ever.
    Forever,
}

/// How long these tolerations let a pod stay on a node with this taint. The shortest one that names a time counts.
#[must_use]
pub fn stay(tolerations: &[Toleration], taint: &Taint) -> Stay {
    let mut that_do = tolerations.iter().filter(|it| it.tolerates(taint)).peekable();
    if that_do.peek().is_none() {
        return Stay::For(Duration::ZERO);
    }
    let seconds = that_do.filter_map(|it| it.seconds).min();
    seconds.map_or(Stay::Forever, |s| Stay::For(Duration::from_secs(s.max(0).unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn stays() {
        let taint = Taint { key: "k".into(), value: "v".into(), effect: Effect::NoExecute };
        let secs = |n| Stay::For(Duration::from_secs(n));
        for (about, list, want) in [
            ("no toleration", tree!([]), secs(0)),
            ("another key", tree!([{"key": "x", "operator": "Exists"}]), secs(0)),
            ("another value", tree!([{"key": "k", "value": "w"}]), secs(0)),
            ("another effect", tree!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), secs(0)),
            ("everything, for ever", tree!([{"operator": "Exists"}]), Stay::Forever),
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
            assert_eq!(stay(&Toleration::all_of(&pod), &taint), want, "{about}");
        }
    }
}
