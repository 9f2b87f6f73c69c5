//! Lists of names as flags take them: `a,b`, `*`, `*,-c`.

use std::collections::BTreeSet;

/// All controllers, in the order they are documented.
pub const CONTROLLERS: [&str; 14] = [
    "job",
    "gc",
    "namespace",
    "serviceaccount",
    "podgc",
    "endpointslice",
    "volume",
    "resourceclaim",
    "scheduler",
    "node",
    "jobset",
    "queue",
    "trainer",
    "podgroup",
];

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

#[cfg(test)]
mod tests {
    use super::*;

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
