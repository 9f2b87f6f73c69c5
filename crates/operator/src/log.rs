//! Log setup: `tracing` to stderr, as text or JSON.

use std::io::{self, IsTerminal};

use crate::flags::{LogFormat, LogLevel};

/// Installs the global subscriber; to be called once per process. `NO_COLOR` is honoured.
pub fn start(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Trace => tracing::Level::TRACE,
    };
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(colour);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
}
