//! The kubeconfig that `up` writes.
//!
//! # Invariants
//!
//! - Other entries of an existing file stay: only those with our own name are replaced.
//! - The file is replaced atomically and is readable by its owner only.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_tree::{Tree, tree};

use super::identity::CertKeyPair;

/// The cluster, user and context entries to write.
#[derive(Debug, Clone)]
pub struct KubeconfigEntry {
    /// The name of cluster, user and context.
    pub name: String,
    pub server: String,
    /// The CA certificate, PEM.
    pub authority: String,
    pub client: CertKeyPair,
}

#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The existing file cannot be parsed; it is left unchanged.
    #[error("{path} is no kubeconfig: {problem}; move it away or name another file")]
    Foreign { path: String, problem: String },
    #[error("writing kubeconfig {path}: {source}")]
    Io { path: String, source: io::Error },
}

/// Merges `access` into the file at `path` and makes it the current context.
///
/// # Errors
/// The existing file is no kubeconfig, or it cannot be written.
pub fn write(path: &Path, access: &KubeconfigEntry) -> Result<(), KubeconfigError> {
    let shown = path.display().to_string();
    let io = |source| KubeconfigError::Io { path: shown.clone(), source };
    let old = match fs::read_to_string(path) {
        Ok(text) => Tree::parse_yaml(&text)
            .map_err(|e| KubeconfigError::Foreign { path: shown.clone(), problem: e.to_string() })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Tree::Null,
        Err(error) => return Err(io(error)),
    };
    if !old.is_map() && !old.is_null() {
        let problem = format!("expected a map, found {}", old.type_word());
        return Err(KubeconfigError::Foreign { path: shown, problem });
    }
    replace_file(path, merged(&old, access).to_yaml().as_bytes()).map_err(io)
}

/// Replaces the entries of `access.name` in `old`.
fn merged(old: &Tree, access: &KubeconfigEntry) -> Tree {
    let name = access.name.as_str();
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    let cluster = tree!({"name": name, "cluster": {
        "server": access.server.as_str(),
        "certificate-authority-data": encode(&access.authority),
    }});
    let user = tree!({"name": name, "user": {
        "client-certificate-data": encode(&access.client.certificate),
        "client-key-data": encode(&access.client.key),
    }});
    let context = tree!({"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}});
    let mut new = if old.is_map() { old.clone() } else { Tree::empty_map() };
    for (list, entry) in [("clusters", cluster), ("users", user), ("contexts", context)] {
        let others = new.items_at(&[list]).iter().filter(|item| item.str_at(&["name"]) != name).cloned();
        let all: Vec<Tree> = others.chain([entry]).collect();
        new = new.with_key(list, Tree::list(all));
    }
    new.with_key("apiVersion", "v1".into())
        .with_key("kind", "Config".into())
        .with_key("current-context", name.into())
}

/// Writes a temporary file and renames it: readers never see a partial file.
fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    // A symbolic link stays: its target is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.tmp", std::process::id()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    // Synced before the rename: otherwise a crash could leave an empty file under the final name.
    file.sync_all()?;
    fs::rename(&beside, &path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn access(server: &str) -> KubeconfigEntry {
        let client = CertKeyPair { certificate: "CERT".to_owned(), key: "KEY".to_owned() };
        KubeconfigEntry {
            name: "muster".to_owned(),
            server: server.to_owned(),
            authority: "CA".to_owned(),
            client,
        }
    }

    #[test]
    fn other_contexts_stay_and_ours_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/config");
        write(&path, &access("https://127.0.0.1:1")).unwrap();
        let mine = Tree::parse_yaml(&fs::read_to_string(&path).unwrap()).unwrap();
        let other = tree!({"name": "prod", "context": {"cluster": "prod", "user": "me"}});
        let both: Vec<Tree> = mine.items_at(&["contexts"]).iter().cloned().chain([other.clone()]).collect();
        let with_other =
            mine.with(&["contexts"], Tree::list(both)).with(&["preferences"], tree!({"colors": true}));
        fs::write(&path, with_other.to_yaml()).unwrap();

        write(&path, &access("https://127.0.0.1:2")).unwrap();
        let after = Tree::parse_yaml(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(after.items_at(&["contexts"]).len(), 2);
        assert!(after.items_at(&["contexts"]).contains(&other));
        assert_eq!(after.bool_at(&["preferences", "colors"]), Some(true));
        assert_eq!(after.items_at(&["clusters"]).len(), 1);
        assert_eq!(after.items_at(&["clusters"])[0].str_at(&["cluster", "server"]), "https://127.0.0.1:2");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        for text in ["- just\n- a list\n", "a: [unclosed\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(write(&path, &access("s")), Err(KubeconfigError::Foreign { .. })), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
