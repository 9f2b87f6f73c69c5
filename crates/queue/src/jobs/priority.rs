//! The priority of a Workload and its source.
//!
//! # Guarantees
//!
//! - The label takes precedence: the Workload gets exactly this WorkloadPriorityClass, or is not created until it
//!   exists.
//! - Without any class the priority is 0, never unset.

use muster_api::queue::PriorityRef;
use muster_tree::Text;

/// A priority with its class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvedPriority {
    pub class: Option<PriorityRef>,
    pub priority: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPriorityClass {
    pub name: Text,
    pub value: i64,
    /// Field `globalDefault` of the PriorityClass.
    pub is_default: bool,
}

/// The named class does not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityClassNotFound(pub PriorityRef);

/// The sources of a Workload's priority, in order of precedence.
#[derive(Debug, Clone, Copy, Default)]
pub struct PrioritySources<'a> {
    /// Label `priority-class`; empty for none.
    pub label: &'a str,
    /// The class named by the job itself; empty for none.
    pub of_job: &'a str,
    /// The `priorityClassName` of each pod set.
    pub of_pods: &'a [Text],
}

pub trait PriorityClassLister {
    /// The value of a WorkloadPriorityClass.
    fn workload_priority_class(&self, name: &str) -> Option<i64>;
    /// The value of a PriorityClass.
    fn priority_class(&self, name: &str) -> Option<i64>;
    /// The global default PriorityClass.
    fn default_priority_class(&self) -> Option<PodPriorityClass>;
}

/// Of several global defaults the lowest counts, as in kube-apiserver; ties by name.
#[must_use]
pub fn default_of(classes: impl IntoIterator<Item = PodPriorityClass>) -> Option<PodPriorityClass> {
    let defaults = classes.into_iter().filter(|it| it.is_default);
    defaults.min_by(|a, b| a.value.cmp(&b.value).then_with(|| a.name.cmp(&b.name)))
}

/// Resolves the priority of a Workload.
///
/// # Errors
/// The named class does not exist.
pub fn resolve(
    asked: PrioritySources<'_>,
    classes: &dyn PriorityClassLister,
) -> Result<ResolvedPriority, PriorityClassNotFound> {
    let found = |class: PriorityRef, value: Option<i64>| match value {
        Some(priority) => Ok(ResolvedPriority { class: Some(class), priority }),
        None => Err(PriorityClassNotFound(class)),
    };
    // No fallback: a missing class must not silently lower the priority.
    if !asked.label.is_empty() {
        return found(
            PriorityRef::workload(&asked.label.into()),
            classes.workload_priority_class(asked.label),
        );
    }
    let of_pods = || asked.of_pods.iter().map(Text::as_str).find(|it| !it.is_empty());
    let named = Some(asked.of_job).filter(|it| !it.is_empty()).or_else(of_pods);
    if let Some(name) = named {
        return found(PriorityRef::pod(&name.into()), classes.priority_class(name));
    }
    Ok(classes.default_priority_class().map_or_else(ResolvedPriority::default, |it| ResolvedPriority {
        class: Some(PriorityRef::pod(&it.name)),
        priority: it.value,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl PriorityClassLister for Known {
        fn workload_priority_class(&self, name: &str) -> Option<i64> {
            (name == "gold").then_some(100)
        }
        fn priority_class(&self, name: &str) -> Option<i64> {
            [("high", 10), ("low", -10)].iter().find(|it| it.0 == name).map(|it| it.1)
        }
        fn default_priority_class(&self) -> Option<PodPriorityClass> {
            let class =
                |name: &str, value, is_default| PodPriorityClass { name: name.into(), value, is_default };
            default_of([class("b", 2, true), class("a", 2, true), class("c", 1, false), class("d", 3, true)])
        }
    }

    struct NoClasses;

    impl PriorityClassLister for NoClasses {
        fn workload_priority_class(&self, _: &str) -> Option<i64> {
            None
        }
        fn priority_class(&self, _: &str) -> Option<i64> {
            None
        }
        fn default_priority_class(&self) -> Option<PodPriorityClass> {
            None
        }
    }

    #[test]
    fn first_priority_source_counts() {
        let words = |list: &[&str]| list.iter().map(|it| Text::from(*it)).collect::<Vec<_>>();
        type Case<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], Result<(&'a str, i64), &'a str>);
        let cases: [Case<'_>; 8] = [
            ("the label before all", "gold", "high", &["low"], Ok(("gold", 100))),
            ("a label without a class waits", "silver", "high", &["low"], Err("silver")),
            ("the job before its pods", "", "high", &["low"], Ok(("high", 10))),
            ("the job's own class must exist", "", "none", &["low"], Err("none")),
            ("the first set that names one", "", "", &["", "low", "high"], Ok(("low", -10))),
            ("a set's class must exist", "", "", &["none"], Err("none")),
            ("nobody names one: the lowest default", "", "", &["", ""], Ok(("a", 2))),
            ("a class of pods is no class of queues", "high", "", &[], Err("high")),
        ];
        for (says, label, of_job, of_pods, want) in cases {
            let got = resolve(PrioritySources { label, of_job, of_pods: &words(of_pods) }, &Known);
            let got = got.map(|it| (it.class.unwrap().name, it.priority)).map_err(|it| it.0.name);
            assert_eq!(got, want.map(|(name, value)| (name.into(), value)).map_err(Text::from), "{says}");
        }
        assert_eq!(
            resolve(PrioritySources::default(), &NoClasses),
            Ok(ResolvedPriority::default()),
            "no class at all: 0"
        );
    }
}
