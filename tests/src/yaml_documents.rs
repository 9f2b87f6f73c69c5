//! Reads directories of YAML documents.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use muster_tree::{Tree, from_tree};
use serde::de::DeserializeOwned;

/// Reads all documents in the YAML files of a directory, in file name order.
pub fn read(folder: &Path) -> Result<Vec<(PathBuf, Tree)>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| wrong(folder, &e))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| wrong(&file, &e))?;
        let documents = Tree::parse_yaml_documents(&text).map_err(|e| wrong(&file, &e))?;
        all.extend(documents.into_iter().map(|document| (file.clone(), document)));
    }
    Ok(all)
}

/// Deserialises the documents of a directory. An error contains the file and the start of the document.
pub fn load<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, String> {
    read(folder)?.iter().map(|(file, document)| value(file, document)).collect()
}

/// Like [`load`], with the file name without its ordering number: `03-failure.yaml` is `failure`.
pub fn load_with_files<T: DeserializeOwned>(folder: &Path) -> Result<Vec<(String, T)>, String> {
    let all = read(folder)?;
    all.iter().map(|(file, document)| Ok((short_name(file), value(file, document)?))).collect()
}

/// Returns the file name without number and extension.
#[must_use]
pub fn short_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem.split_once('-') {
        Some((number, name)) if number.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
        _ => stem,
    }
}

pub fn value<T: DeserializeOwned>(file: &Path, document: &Tree) -> Result<T, String> {
    const START: usize = 80;
    let start: String = document.to_json().chars().take(START).collect();
    from_tree(document).map_err(|e| wrong(file, &format!("{e}, in {start}")))
}

fn wrong(place: &Path, why: &dyn Display) -> String {
    format!("{}: {why}", place.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_file_is_no_part_of_its_name() {
        for (file, name) in
            [("a/03-failure.yaml", "failure"), ("kueue-workload.yaml", "kueue-workload"), ("b.yaml", "b")]
        {
            assert_eq!(short_name(Path::new(file)), name);
        }
    }

    #[test]
    fn an_error_contains_the_file_and_the_document() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("b.yaml", "- 3\n---\n- 4\n");
        write("a.yaml", "- 1\n- 2\n");
        write("notes.txt", "not read");
        assert_eq!(load::<Vec<u32>>(folder.path()), Ok(vec![vec![1, 2], vec![3], vec![4]]));
        write("c.yaml", "name: odd\n");
        let error = load::<Vec<u32>>(folder.path()).unwrap_err();
        assert!(error.contains("c.yaml: ") && error.ends_with("in {\"name\":\"odd\"}"), "{error}");
    }
}
