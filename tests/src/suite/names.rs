//! Names of cases, and how they are chosen on the command line.

/// Options of the harness that have a value of their own.
const WITH_VALUE: [&str; 6] = ["--skip", "--test-threads", "--logfile", "--color", "--format", "-Z"];

/// The name of a case: its parts, each in small letters and digits.
#[must_use]
pub fn name(parts: &[&str]) -> String {
    parts.iter().map(|part| slug(part)).collect::<Vec<_>>().join("/")
}

/// A sentence as a part of a name: words with a dash between them.
fn slug(text: &str) -> String {
    let plain = text.to_lowercase();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// Which cases are chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    /// A case is chosen if one of these matches, or if there are none.
    pub any: Vec<String>,
    /// A case is not chosen if one of these matches.
    pub skip: Vec<String>,
    /// Whether the whole name must match.
    pub exact: bool,
}

impl Filters {
    /// Whether the case of this name is chosen.
    #[must_use]
    pub fn choose(&self, name: &str) -> bool {
        let matches = |filter: &String| if self.exact { filter == name } else { is_part(filter, name) };
        (self.any.is_empty() || self.any.iter().any(matches)) && !self.skip.iter().any(matches)
    }
}

/// Whether a name has this in it, or each of its parts between slashes in a later part of the name than the one before.
fn is_part(filter: &str, name: &str) -> bool {
    let mut parts = name.split('/');
    name.contains(filter) || filter.split('/').all(|word| parts.any(|part| part.contains(word)))
}

/// The filters among the arguments of a command, and all other arguments: the harness takes one filter, we take several.
#[must_use]
pub fn filters(args: impl IntoIterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let (mut filters, mut others) = (Vec::new(), Vec::new());
    let mut args = args.into_iter();
    // The first one is the program.
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
    fn sentences_become_names() {
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
    fn cases_are_chosen_by_parts_of_their_names() {
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
            let filters = Filters { any: own(any), skip: own(skip), exact };
            assert_eq!(filters.choose(name), want, "{filters:?}");
        }
    }

    #[test]
    fn filters_are_what_is_no_option_and_no_value_of_one() {
        let args = ["scenarios", "a", "--test-threads", "3", "--exact", "b", "--skip=c", "--skip", "d"];
        let (any, others) = filters(args.map(str::to_owned));
        assert_eq!(any, ["a", "b"]);
        assert_eq!(others, ["scenarios", "--test-threads", "3", "--exact", "--skip=c", "--skip", "d"]);
    }
}
