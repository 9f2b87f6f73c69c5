//! Controller and admission step names, and lists of them as flags take them: `a,b`, `*`, `*,-c`.

use std::collections::BTreeSet;

/// All controllers, in the order of the reference.
pub const CONTROLLERS: [&str; 16] = [
    "job",
    "gc",
    "namespace",
    "serviceaccount",
    "podgc",
    "endpointslice",
    "disruption",
    "volume",
    "resourceclaim",
    "scheduler",
    "node",
    "jobset",
    "queue",
    "trainer",
    "podgroup",
    "unsupported",
];

/// Controllers that create objects of another controller: dependent, dependency, and what becomes of what.
const DEPENDS_ON: [(&str, &str, &str); 2] =
    [("trainer", "jobset", "TrainJobs become JobSets"), ("jobset", "job", "JobSets become Jobs")];

/// Our admission steps, beside the built-in admission plugins of the API server.
const PRODUCT_ADMISSION: [&str; 4] = ["jobset", "queue", "trainer", "podgroup"];

#[must_use]
pub fn admission_step_names() -> Vec<&'static str> {
    muster_apiserver::admission::BUILTIN.into_iter().chain(PRODUCT_ADMISSION).collect()
}

/// A name in a list does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`\n\nhint: known are {known}, and `*` for all")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
}

/// Resolves a list. A list of exclusions alone starts from all names.
///
/// # Errors
/// The first unknown name, with the known ones.
pub fn select(what: &'static str, list: &str, known: &[&str]) -> Result<BTreeSet<String>, UnknownName> {
    let words: Vec<&str> = list.split(',').map(str::trim).filter(|w| !w.is_empty()).collect();
    let all = || known.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    let only_minus = !words.is_empty() && words.iter().all(|w| w.starts_with('-'));
    let mut chosen = if only_minus { all() } else { BTreeSet::new() };
    for word in words {
        let name = word.trim_start_matches('-');
        if word == "*" {
            chosen.extend(all());
        } else if !known.contains(&name) {
            return Err(UnknownName { what, name: name.to_owned(), known: known.join(", ") });
        } else if word.starts_with('-') {
            chosen.remove(name);
        } else {
            chosen.insert(name.to_owned());
        }
    }
    Ok(chosen)
}

/// Warnings about enabled controllers whose dependency is disabled. A dependency that is not in `known` is provided by the
/// cluster.
#[must_use]
pub fn missing_dependencies(chosen: &BTreeSet<String>, known: &[&str]) -> Vec<String> {
    let lacks = |(one, other, _): &&(&str, &str, &str)| {
        chosen.contains(*one) && known.contains(other) && !chosen.contains(*other)
    };
    let words = |(one, other, becomes): &(&str, &str, &str)| {
        format!(
            "the controller `{one}` runs without `{other}`: {becomes}, which are never reconciled unless another \
             controller does; add `{other}` to `controllers`, or start one"
        )
    };
    DEPENDS_ON.iter().filter(lacks).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_without_their_dependency_are_warned_about() {
        let told = |list: &str, known: &[&str]| {
            let all = missing_dependencies(&select("controller", list, known).unwrap(), known);
            all.iter().map(|it| it.split(": ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let lacks = |one: &str, other: &str| format!("the controller `{one}` runs without `{other}`");
        let cluster = ["scheduler", "jobset", "podgroup", "queue", "trainer"];
        assert_eq!(told("*", &CONTROLLERS), [""; 0]);
        assert_eq!(told("trainer", &CONTROLLERS), [lacks("trainer", "jobset")]);
        assert_eq!(told("trainer,jobset", &CONTROLLERS), [lacks("jobset", "job")]);
        assert_eq!(told("gc", &CONTROLLERS), [""; 0]);
        assert_eq!(told("trainer", &cluster), [lacks("trainer", "jobset")]);
        assert_eq!(told("trainer,jobset", &cluster), [""; 0], "a cluster runs Jobs itself");
    }

    #[test]
    fn lists() {
        let known = ["a", "b", "c"];
        for (list, want) in
            [("*", "abc"), ("a,c", "ac"), ("*,-b", "ac"), ("-b", "ac"), (" a , b ", "ab"), ("", "")]
        {
            let chosen = select("letter", list, &known).unwrap();
            assert_eq!(chosen.into_iter().collect::<String>(), want, "{list:?}");
        }
        let error = select("letter", "a,-x", &known).unwrap_err().to_string();
        assert_eq!(error, "unknown letter `x`\n\nhint: known are a, b, c, and `*` for all");
    }
}
