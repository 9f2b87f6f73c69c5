//! `muster snapshot save|restore FILE`: the store of a data folder in one file.
//!
//! A running server holds its folder: it has to be stopped first, and the refusal names it.

use std::path::PathBuf;

use muster_store::copy::{self, Copied, CopyError};

use crate::cli::{SnapshotCommand, SnapshotFlags};
use crate::settings::{self, SettingsError};

/// Why nothing was saved or restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// No folder.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store or the file.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// Saves or restores.
///
/// # Errors
/// Nothing was done; the error says why.
pub fn run(command: &SnapshotCommand) -> Result<(), SnapshotError> {
    match command {
        SnapshotCommand::Save(flags) => {
            let folder = folder(flags)?;
            let copied = copy::save(&folder, &flags.file)?;
            tell(&format!("saved {} of {} to {}", what(&copied), folder.display(), flags.file.display()));
        }
        SnapshotCommand::Restore(flags) => {
            let folder = folder(flags)?;
            let copied = copy::restore(&flags.file, &folder)?;
            tell(&format!("restored {} of {} to {}", what(&copied), flags.file.display(), folder.display()));
        }
    }
    Ok(())
}

fn folder(flags: &SnapshotFlags) -> Result<PathBuf, SettingsError> {
    flags.data_dir.clone().or_else(settings::data_home).ok_or(SettingsError::NoHome)
}

fn what(copied: &Copied) -> String {
    format!("revision {} ({} bytes)", copied.revision, copied.bytes)
}

#[expect(clippy::print_stdout, reason = "what was done is the data of this command")]
fn tell(text: &str) {
    println!("{text}");
}
