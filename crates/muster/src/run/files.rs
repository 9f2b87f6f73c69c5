//! Reads manifests from files, directories and standard input, each with its origin.
//!
//! Directories are read without recursion, sorted by file name; a `List` is split into its items.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use muster_api::meta;
use muster_tree::Tree;

/// The upper bound of the size of a file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The file name extensions that are read from a directory.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// The origin of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file, as the user named it.
    pub file: String,
    /// The number of the document in the file, from 1.
    pub number: usize,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} document {}", self.file, self.number)
    }
}

/// A manifest and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub origin: Origin,
    pub tree: Tree,
}

/// The manifests cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("{path}: {source}\n\nhint: `-f` takes a file, a folder, or `-` for standard input", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A file exceeds the upper bound.
    #[error("{path}: more than {FILE_BYTES_MAX} bytes\n\nhint: give manifests; data belongs into a volume", path = path.display())]
    TooLarge { path: PathBuf },
    /// A directory has no manifest.
    #[error("{path}: no file in it ends in .yaml, .yml or .json\n\nhint: folders inside it are not looked into", path = path.display())]
    EmptyDirectory { path: PathBuf },
    /// A file is not YAML.
    #[error("{file}: {problem}\n\nhint: give YAML or JSON manifests, separated by `---`")]
    Unreadable { file: String, problem: String },
}

/// Reads all sources in order.
///
/// # Errors
/// The first source that cannot be read.
pub fn read(sources: &[PathBuf], input: &mut dyn Read) -> Result<Vec<Document>, FilesError> {
    let mut all = Vec::new();
    for source in sources {
        if source.as_os_str() == "-" {
            all.extend(documents("standard input", &text_of(source, input)?)?);
            continue;
        }
        for file in files_of(source)? {
            let opened = std::fs::File::open(&file);
            let mut opened = opened.map_err(|source| FilesError::Io { path: file.clone(), source })?;
            all.extend(documents(&file.display().to_string(), &text_of(&file, &mut opened)?)?);
        }
    }
    Ok(all)
}

/// The file itself, or the manifests of a directory.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, FilesError> {
    let io = |source| FilesError::Io { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(io)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(io)?;
    let files = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>().map_err(io)?;
    let ends = |file: &PathBuf| file.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known));
    let mut files: Vec<PathBuf> = files.into_iter().filter(|file| file.is_file() && ends(file)).collect();
    files.sort();
    if files.is_empty() {
        return Err(FilesError::EmptyDirectory { path: path.to_owned() });
    }
    Ok(files)
}

fn text_of(path: &Path, from: &mut dyn Read) -> Result<String, FilesError> {
    let mut text = String::new();
    let read = from.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|source| FilesError::Io { path: path.to_owned(), source })?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(FilesError::TooLarge { path: path.to_owned() });
    }
    Ok(text)
}

/// The documents of a text. All items of a `List` have the number of one document.
///
/// # Errors
/// The text is not YAML.
pub fn documents(file: &str, text: &str) -> Result<Vec<Document>, FilesError> {
    let wrong =
        |e: muster_tree::ParseError| FilesError::Unreadable { file: file.to_owned(), problem: e.to_string() };
    let trees = Tree::parse_yaml_documents(text).map_err(wrong)?;
    let mut all = Vec::new();
    for (at, tree) in trees.into_iter().enumerate() {
        let origin = Origin { file: file.to_owned(), number: at + 1 };
        if meta::kind_name(&tree) == "List" {
            let inside = tree.items_at(&["items"]).iter();
            all.extend(inside.map(|item| Document { origin: origin.clone(), tree: item.clone() }));
        } else {
            all.push(Document { origin, tree });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_know_where_they_stand() {
        let text = "kind: A\n---\n# nothing\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n";
        let found = documents("f.yaml", text).unwrap();
        let words: Vec<String> =
            found.iter().map(|d| format!("{}: {}", d.origin, meta::kind_name(&d.tree))).collect();
        assert_eq!(words, ["f.yaml document 1: A", "f.yaml document 2: B", "f.yaml document 2: C"]);
        let error = documents("f.yaml", "a: [").unwrap_err().to_string();
        assert!(error.starts_with("f.yaml: ") && error.contains("hint: give YAML"), "{error}");
    }

    #[test]
    fn files_folders_and_the_input() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        write("b.yml", "kind: Second");
        write("a.json", r#"{"kind": "First"}"#);
        write("notes.txt", "kind: Nothing");
        write("deeper/c.yaml", "kind: Deeper");
        let sources = [folder.path().to_owned(), "-".into()];
        let found = read(&sources, &mut "kind: Third".as_bytes()).unwrap();
        let words: Vec<&str> = found.iter().map(|d| d.tree.str_at(&["kind"])).collect();
        assert_eq!(words, ["First", "Second", "Third"]);
        for (path, words) in [
            (folder.path().join("nowhere"), "nowhere: No such file"),
            (write("empty/readme", "x").parent().unwrap().to_owned(), "no file in it ends in .yaml"),
        ] {
            let error = read(std::slice::from_ref(&path), &mut io::empty()).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("hint: "), "{error}");
        }
    }
}
