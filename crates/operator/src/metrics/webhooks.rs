//! Webhook metrics, under the names of controller-runtime.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{family, histograms};
use crate::webhooks::WebhookCounts;

pub fn encode(into: &mut DescriptorEncoder<'_>, all: &WebhookCounts) -> fmt::Result {
    let codes = all.iter().flat_map(|(path, one)| {
        let codes = [("200", one.allowed + one.refused), ("500", one.failed)];
        codes.map(|(code, count)| ([("code", code), ("webhook", *path)], count))
    });
    family(into, "controller_runtime_webhook_requests", "Webhook requests, by status code", codes)?;
    let times = all.iter().map(|(path, one)| ([("webhook", *path)], &one.times));
    let help = "Latency of webhook requests";
    histograms(into, "controller_runtime_webhook_latency_seconds", help, times)?;
    let refused = all.iter().map(|(path, one)| ([("webhook", *path)], one.refused));
    family(into, "muster_webhook_refusals", "Writes that webhooks denied", refused)
}
