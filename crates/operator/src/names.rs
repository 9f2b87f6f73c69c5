//! Lists of names as flags take them: `a,b`, `*`, `*,-c`.

use std::collections::BTreeSet;

/// All controllers, in the order they are documented.
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

/// Controllers whose objects are made into objects of another controller: which, of which other, and what becomes of what.
const RELIES_ON: [(&str, &str, &str); 2] =
    [("trainer", "jobset", "TrainJobs become JobSets"), ("jobset", "job", "JobSets become Jobs")];

/// Admission steps of the product, beside those built into the API server.
const PRODUCT_ADMISSION: [&str; 4] = ["jobset", "queue", "trainer", "podgroup"];

/// All admission steps.
#[must_use]
pub fn admission_steps() -> Vec<&'static str> {
    muster_apiserver::admission::BUILTIN.into_iter().chain(PRODUCT_ADMISSION).collect()
}

/// A name that nobody knows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`\n\nhint: known are {known}, and `*` for all")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    known: String,
}

/// The names that a list chooses. A list that only leaves out begins with all.
///
/// # Errors
/// Names the first unknown one and lists the known ones.
pub fn choose(what: &'static str, list: &str, known: &[&str]) -> Result<BTreeSet<String>, UnknownName> {
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

/// What is warned of at the start: chosen controllers without the one that runs what they make. One that is not among `known`
/// is the cluster's own.
#[must_use]
pub fn unserved(chosen: &BTreeSet<String>, known: &[&str]) -> Vec<String> {
    let lacks = |(one, other, _): &&(&str, &str, &str)| {
        chosen.contains(*one) && known.contains(other) && !chosen.contains(*other)
    };
    let words = |(one, other, becomes): &(&str, &str, &str)| {
        format!(
            "the controller `{one}` runs without `{other}`: {becomes}, and none of them starts or ends unless another \
             controller runs them; add `{other}` to `controllers`, or start one"
        )
    };
    RELIES_ON.iter().filter(lacks).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_without_the_one_they_rely_on_are_warned_of() {
        let told = |list: &str, known: &[&str]| {
            let all = unserved(&choose("controller", list, known).unwrap(), known);
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
            let chosen = choose("letter", list, &known).unwrap();
            assert_eq!(chosen.into_iter().collect::<String>(), want, "{list:?}");
        }
        let error = choose("letter", "a,-x", &known).unwrap_err().to_string();
        assert_eq!(error, "unknown letter `x`\n\nhint: known are a, b, c, and `*` for all");
    }
}
