//! The `tls` key of all documents.

use muster_apiserver::http::serving_cert::TlsOptions;
use muster_tree::Tree;

use super::shape::ConfigProblem;

/// The TLS options of a document, if it has any.
///
/// # Errors
/// An unknown version or cipher suite.
pub fn read(document: &Tree) -> Result<Option<TlsOptions>, ConfigProblem> {
    let Some(tls) = document.get("tls").filter(|it| it.is_map()) else { return Ok(None) };
    let suites = tls.items_at(&["cipherSuites"]).iter().filter_map(Tree::as_str);
    let suites: Vec<String> = suites.map(str::to_owned).collect();
    TlsOptions::parse(tls.str_at(&["minVersion"]), &suites).map(Some).map_err(|error| {
        let words = error.to_string();
        let (path, words) = words.split_once(": ").unwrap_or(("tls", words.as_str()));
        ConfigProblem::at(path, words)
    })
}

/// Collects the problems of the key.
pub fn check(document: &Tree, wrong: &mut Vec<ConfigProblem>) {
    wrong.extend(read(document).err());
}
