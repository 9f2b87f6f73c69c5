//! Names of cases, and their selection on the command line.

/// Harness options that take a value.
const WITH_VALUE: [&str; 6] = ["--skip", "--test-threads", "--logfile", "--color", "--format", "-Z"];

/// Builds the name of a case from its parts, each in lower case with dashes.
#[must_use]
pub fn name(parts: &[&str]) -> String {
    parts.iter().map(|part| slug(part)).collect::<Vec<_>>().join("/")
}

/// Converts a sentence to words with dashes.
fn slug(text: &str) -> String {
    let plain = text.to_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Filters of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaseFilters {
    /// A case is selected if one of these matches, or if there are none.
    pub any: Vec<String>,
    /// A case is not selected if one of these matches.
    pub skip: Vec<String>,
    /// Requires an exact match.
    pub exact: bool,
}

impl CaseFilters {
    /// Whether the case of this name is selected.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let is_match = |filter: &String| if self.exact { filter == name } else { is_part(filter, name) };
        (self.any.is_empty() || self.any.iter().any(is_match)) && !self.skip.iter().any(is_match)
    }
}

/// Whether a name contains the filter, or each slash-separated part of the filter in ascending parts of the name.
fn is_part(filter: &str, name: &str) -> bool {
    let mut parts = name.split('/');
    name.contains(filter) || filter.split('/').all(|word| parts.any(|part| part.contains(word)))
}

/// Splits arguments into filters and other arguments: the harness supports one filter, we support several.
#[must_use]
pub fn filters(args: impl IntoIterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let (mut filters, mut others) = (Vec::new(), Vec::new());
    let mut args = args.into_iter();
    // The first argument is the program.
    others.extend(args.next());
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') {
            filters.push(arg);
            continue;
        }
        let has_value = WITH_VALUE.contains(&arg.as_str());
        others.push(arg);
        if has_value {
            others.extend(args.next());
        }
    }
    (filters, others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_become_case_names() {
        for (parts, want) in [
            (
                &["jobsets", "failure", "The first failure: it's counted, once."][..],
                "jobsets/failure/the-first-failure-it-s-counted-once",
            ),
            (&["queues", "Real", "`a/b` → c"], "queues/real/a-b-c"),
        ] {
            assert_eq!(name(parts), want);
        }
    }

    #[test]
    fn cases_are_selected_by_parts_of_their_names() {
        let name = "trains/ttl/real/it-goes-after-its-time";
        for (any, skip, exact, want) in [
            (&[][..], &[][..], false, true),
            (&["trains"], &[], false, true),
            (&["trains/real"], &[], false, true),
            (&["trains/embedded"], &[], false, false),
            (&["real/trains"], &[], false, false),
            (&["queues", "after-its"], &[], false, true),
            (&["trains"], &["real"], false, false),
            (&["trains/ttl"], &[], true, false),
            (&["trains/ttl/real/it-goes-after-its-time"], &[], true, true),
        ] {
            let own = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
            let filters = CaseFilters { any: own(any), skip: own(skip), exact };
            assert_eq!(filters.matches(name), want, "{filters:?}");
        }
    }

    #[test]
    fn options_and_their_values_are_not_filters() {
        let args = ["scenarios", "a", "--test-threads", "3", "--exact", "b", "--skip=c", "--skip", "d"];
        let (any, others) = filters(args.map(str::to_owned));
        assert_eq!(any, ["a", "b"]);
        assert_eq!(others, ["scenarios", "--test-threads", "3", "--exact", "--skip=c", "--skip", "d"]);
    }
}
