//! The measures of the house style over scanned packages.

use std::collections::{BTreeMap, BTreeSet};

use super::comments::CommentFacts;
use super::sources::ScannedPackage;

/// Percentiles of a list of lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Percentiles {
    pub count: usize,
    pub p50: usize,
    pub p90: usize,
    pub p99: usize,
    pub max: usize,
}

impl Percentiles {
    /// Computes each percentile by the nearest rank.
    fn of(mut values: Vec<usize>) -> Percentiles {
        values.sort_unstable();
        let Some(max) = values.last().copied() else { return Percentiles::default() };
        let rank = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
        Percentiles { count: values.len(), p50: rank(50), p90: rank(90), p99: rank(99), max }
    }
}

/// One row of the table: a package, or several together.
#[derive(Debug, Default)]
pub struct TableRow {
    pub name: String,
    pub code_lines: usize,
    pub file_lines: Percentiles,
    pub function_lines: Percentiles,
    pub comments: CommentFacts,
    pub string_results: usize,
}

impl TableRow {
    /// Measures the files of all `packages` together.
    pub fn of<'a>(name: &str, packages: impl IntoIterator<Item = &'a ScannedPackage>) -> TableRow {
        let facts: Vec<_> = packages.into_iter().flat_map(|it| &it.files).map(|it| &it.facts).collect();
        TableRow {
            name: name.to_owned(),
            code_lines: facts.iter().map(|it| it.code_lines).sum(),
            file_lines: Percentiles::of(facts.iter().map(|it| it.lines).collect()),
            function_lines: Percentiles::of(
                facts.iter().flat_map(|it| it.function_lines.iter().copied()).collect(),
            ),
            comments: facts.iter().fold(CommentFacts::default(), |sum, it| sum.plus(it.comments)),
            string_results: facts.iter().map(|it| it.string_results).sum(),
        }
    }

    /// Documentation comments per 100 lines with code.
    pub fn docs_per_100(&self) -> f64 {
        percent(self.comments.docs, self.code_lines)
    }

    /// Lines with inline comments per 100 lines with code.
    pub fn inline_per_100(&self) -> f64 {
        percent(self.comments.inline_lines, self.code_lines)
    }

    /// The share of comment lines that speak of people, in percent.
    pub fn people_percent(&self) -> f64 {
        percent(self.comments.people_lines, self.comments.doc_lines + self.comments.inline_lines)
    }

    /// The share of documentation comments of few words, in percent.
    pub fn short_docs_percent(&self) -> f64 {
        percent(self.comments.short_docs, self.comments.docs)
    }
}

/// `part` of `whole` in percent; 0 of nothing.
pub fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Where something is defined or written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePlace {
    pub package: String,
    pub path: String,
    /// Counted from 1.
    pub line: usize,
}

/// Type names, each with the places of its definitions.
pub type TypeNames = BTreeMap<String, Vec<SourcePlace>>;

/// Collects the names of types, of all or of the public ones alone.
pub fn type_names(packages: &[ScannedPackage], public_only: bool) -> TypeNames {
    let mut names = TypeNames::new();
    for (package, file) in packages.iter().flat_map(|it| it.files.iter().map(move |file| (it, file))) {
        for defined in file.facts.types.iter().filter(|it| it.public || !public_only) {
            let path = file.path.display().to_string();
            let place = SourcePlace { package: package.name.clone(), path, line: defined.line };
            names.entry(defined.name.clone()).or_default().push(place);
        }
    }
    names
}

/// Returns the distinct packages among the places.
pub fn packages_of(places: &[SourcePlace]) -> BTreeSet<&str> {
    places.iter().map(|it| it.package.as_str()).collect()
}

/// Names with more than one definition, the most frequent first.
pub fn homonyms(names: &TypeNames) -> Vec<(&str, &[SourcePlace])> {
    let mut found: Vec<_> =
        names.iter().filter(|it| it.1.len() > 1).map(|(name, it)| (name.as_str(), &it[..])).collect();
    found.sort_by_key(|(name, places)| (std::cmp::Reverse(places.len()), *name));
    found
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::scan::scan;
    use super::super::sources::ScannedFile;
    use super::*;

    fn package(name: &str, texts: &[&str]) -> ScannedPackage {
        let file = |(n, text): (usize, &&str)| ScannedFile {
            path: PathBuf::from(format!("{name}/{n}.rs")),
            facts: scan(text),
        };
        ScannedPackage {
            name: name.to_owned(),
            product: true,
            files: texts.iter().enumerate().map(file).collect(),
        }
    }

    #[test]
    fn percentiles_are_values_of_the_nearest_rank() {
        let cases = [
            (vec![], Percentiles::default()),
            (vec![7], Percentiles { count: 1, p50: 7, p90: 7, p99: 7, max: 7 }),
            ((1..=100).rev().collect(), Percentiles { count: 100, p50: 50, p90: 90, p99: 99, max: 100 }),
            (vec![3, 1, 2], Percentiles { count: 3, p50: 2, p90: 3, p99: 3, max: 3 }),
        ];
        for (values, want) in cases {
            assert_eq!(Percentiles::of(values.clone()), want, "{values:?}");
        }
    }

    #[test]
    fn shares_are_of_code_lines_comment_lines_and_comments() {
        let texts = [
            "/// Name.\npub struct A;\n// nobody\nfn b() {}\n",
            "/// Doc of more than that.\nstruct C;\nstruct D;\n",
        ];
        let row = TableRow::of("a", [&package("a", &texts)]);
        assert_eq!((row.code_lines, row.file_lines.max, row.function_lines.max), (4, 4, 1));
        assert_eq!((row.docs_per_100(), row.inline_per_100()), (50.0, 25.0));
        assert_eq!((row.people_percent().round(), row.short_docs_percent()), (33.0, 50.0));
        assert_eq!(TableRow::of("none", []).people_percent(), 0.0);
    }

    #[test]
    fn a_homonym_is_a_name_with_several_definitions() {
        let packages = [
            package("a", &["pub struct A; pub struct B; struct C;", "pub enum A {}"]),
            package("b", &["pub trait A {} pub trait B {} struct C;"]),
        ];
        let names = type_names(&packages, true);
        let found: Vec<_> =
            homonyms(&names).into_iter().map(|(name, it)| (name, it.len(), packages_of(it).len())).collect();
        assert_eq!(found, [("A", 3, 2), ("B", 2, 2)]);
        assert_eq!(homonyms(&type_names(&packages, false)).len(), 3);
    }
}
