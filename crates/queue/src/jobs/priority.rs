//! How important a Workload is, and who says so.
//!
//! # Invariants
//!
//! - The label wins over everything: whoever sets it gets exactly that class, or waits for it.
//! - Without any class the priority is 0, never absent.

use muster_api::queue::PriorityRef;
use muster_tree::Text;

/// A priority, and the class it is of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resolved {
    /// The class, if any.
    pub class: Option<PriorityRef>,
    /// The number; higher comes first.
    pub priority: i64,
}

/// A class of pods, as far as numbers go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodClass {
    /// Its name.
    pub name: Text,
    /// Its number.
    pub value: i64,
    /// Whether it is that of pods that name none.
    pub is_default: bool,
}

/// A class that was named is not there: it may come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub PriorityRef);

/// What is asked about priorities.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked<'a> {
    /// The class in the label; empty for none.
    pub label: &'a str,
    /// The class that the kind of job names itself; empty for none.
    pub of_job: &'a str,
    /// The classes that the pods of each set name, in order.
    pub of_pods: &'a [Text],
}

/// Which classes there are.
pub trait Classes {
    /// The number of a class of the queues.
    fn of_queues(&self, name: &str) -> Option<i64>;
    /// The number of a class of pods.
    fn of_pods(&self, name: &str) -> Option<i64>;
    /// The class of pods that name none.
    fn default_of_pods(&self) -> Option<PodClass>;
}

/// Of several classes that all say that they are the default, the lowest counts; of equal ones the first by name.
#[must_use]
pub fn default_of(classes: impl IntoIterator<Item = PodClass>) -> Option<PodClass> {
    let defaults = classes.into_iter().filter(|it| it.is_default);
    defaults.min_by(|a, b| a.value.cmp(&b.value).then_with(|| a.name.cmp(&b.name)))
}

/// The priority of a Workload.
///
/// # Errors
/// The class that is named does not exist.
pub fn resolve(asked: Asked<'_>, classes: &dyn Classes) -> Result<Resolved, Missing> {
    let found = |class: PriorityRef, value: Option<i64>| match value {
        Some(priority) => Ok(Resolved { class: Some(class), priority }),
        None => Err(Missing(class)),
    };
    if !asked.label.is_empty() {
        return found(PriorityRef::workload(&asked.label.into()), classes.of_queues(asked.label));
    }
    let of_pods = || asked.of_pods.iter().map(Text::as_str).find(|it| !it.is_empty());
    let named = Some(asked.of_job).filter(|it| !it.is_empty()).or_else(of_pods);
    if let Some(name) = named {
        return found(PriorityRef::pod(&name.into()), classes.of_pods(name));
    }
    Ok(classes.default_of_pods().map_or_else(Resolved::default, |it| Resolved {
        class: Some(PriorityRef::pod(&it.name)),
        priority: it.value,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Known;

    impl Classes for Known {
        fn of_queues(&self, name: &str) -> Option<i64> {
            (name == "gold").then_some(100)
        }
        fn of_pods(&self, name: &str) -> Option<i64> {
            [("high", 10), ("low", -10)].iter().find(|it| it.0 == name).map(|it| it.1)
        }
        fn default_of_pods(&self) -> Option<PodClass> {
            let class = |name: &str, value, is_default| PodClass { name: name.into(), value, is_default };
            default_of([class("b", 2, true), class("a", 2, true), class("c", 1, false), class("d", 3, true)])
        }
    }

    struct NoClasses;

    impl Classes for NoClasses {
        fn of_queues(&self, _: &str) -> Option<i64> {
            None
        }
        fn of_pods(&self, _: &str) -> Option<i64> {
            None
        }
        fn default_of_pods(&self) -> Option<PodClass> {
            None
        }
    }

    #[test]
    fn the_first_source_that_speaks_counts() {
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
            let got = resolve(Asked { label, of_job, of_pods: &words(of_pods) }, &Known);
            let got = got.map(|it| (it.class.unwrap().name, it.priority)).map_err(|it| it.0.name);
            assert_eq!(got, want.map(|(name, value)| (name.into(), value)).map_err(Text::from), "{says}");
        }
        assert_eq!(resolve(Asked::default(), &NoClasses), Ok(Resolved::default()), "no class at all: 0");
    }
}
