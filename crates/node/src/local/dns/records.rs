//! Builds the DNS records of Services and pods.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound;

use muster_api::consts::{DEFAULT_NAMESPACE, KUBERNETES_SERVICE};
use muster_api::paths::{service as path, service_port};
use muster_api::{endpoint_slice, meta};
use muster_tree::{Text, Tree};

use super::{DOMAIN, Record};
use crate::local::container_spec::{ServiceEndpoint, members};

/// All records by lower-case name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    records: BTreeMap<String, Vec<Record>>,
    /// The reversed names, to find out which names have descendants (NODATA instead of NXDOMAIN).
    reversed: BTreeMap<String, ()>,
}

impl Names {
    /// Builds the records of these Services and the pods they select. `server` is the IP of the API server, if known.
    #[must_use]
    pub fn of(services: &[Tree], pods: &[(Tree, Text)], server: Option<IpAddr>) -> Names {
        let mut names = Names::default();
        // The API server has a record without a Service too, and never the cluster IP: nothing forwards cluster IPs.
        if let Some(address) = server {
            let base = format!("{KUBERNETES_SERVICE}.{DEFAULT_NAMESPACE}.svc.{DOMAIN}");
            names.add(base, Record::Address(address));
        }
        for service in services {
            let (name, namespace) = (meta::name(service), meta::namespace(service));
            let base = format!("{name}.{namespace}.svc.{DOMAIN}");
            let is_server = name == KUBERNETES_SERVICE && namespace == DEFAULT_NAMESPACE;
            let told = service.str_at(path::CLUSTER_IP).parse().ok();
            match told.map(|told| server.filter(|_| is_server).unwrap_or(told)) {
                Some(address) => names.add_service(&base, service, address),
                None if service.str_at(path::CLUSTER_IP) == "None" => {
                    members(service, pods).iter().for_each(|it| names.add_member(&base, service, it));
                }
                None => {}
            }
        }
        for records in names.records.values_mut() {
            records.sort();
            records.dedup();
        }
        names.reversed = names.records.keys().map(|name| (name.chars().rev().collect(), ())).collect();
        names
    }

    /// The records of a name.
    pub(super) fn find(&self, name: &str) -> Option<&[Record]> {
        self.records.get(name).map(Vec::as_slice)
    }

    /// Whether the name has descendants.
    pub(super) fn has_below(&self, name: &str) -> bool {
        let start: String = format!(".{name}").chars().rev().collect();
        let mut after = self.reversed.range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded));
        after.next().is_some_and(|(found, ())| found.starts_with(&start))
    }

    fn add(&mut self, name: String, record: Record) {
        self.records.entry(name).or_default().push(record);
    }

    fn add_service(&mut self, base: &str, service: &Tree, address: IpAddr) {
        self.add(base.to_owned(), Record::Address(address));
        for port in service.items_at(path::PORTS) {
            if let Some(number) = port.int_at(service_port::PORT).and_then(|it| u16::try_from(it).ok()) {
                self.add_port(base, port, number, base);
            }
        }
    }

    fn add_member(&mut self, base: &str, service: &Tree, member: &ServiceEndpoint<'_>) {
        let Ok(address) = member.address.parse::<IpAddr>() else { return };
        let dashed = || member.address.replace(['.', ':'], "-");
        let own = format!("{}.{base}", member.hostname.map_or_else(dashed, str::to_owned));
        if member.hostname.is_some() || member.published {
            self.add(own.clone(), Record::Address(address));
            self.add_pointer(address, &own);
        }
        if !member.published {
            return;
        }
        self.add(base.to_owned(), Record::Address(address));
        let told = Tree::parse(endpoint_slice::ports(service, member.pod).as_bytes()).unwrap_or_default();
        for port in told.items() {
            if let Some(number) = port.int_at(service_port::PORT).and_then(|it| u16::try_from(it).ok()) {
                self.add_port(base, port, number, &own);
            }
        }
    }

    /// SRV records of a port: of the Service, and by port name and protocol.
    fn add_port(&mut self, base: &str, port: &Tree, number: u16, target: &str) {
        let record = Record::Service { port: number, target: target.to_owned() };
        self.add(base.to_owned(), record.clone());
        let name = port.str_at(service_port::NAME);
        if !name.is_empty() {
            let protocol = match port.str_at(service_port::PROTOCOL) {
                "" => "tcp".to_owned(),
                told => told.to_lowercase(),
            };
            self.add(format!("_{name}._{protocol}.{base}"), record);
        }
    }

    fn add_pointer(&mut self, address: IpAddr, name: &str) {
        if let IpAddr::V4(address) = address {
            let [a, b, c, d] = Ipv4Addr::octets(&address);
            self.add(format!("{d}.{c}.{b}.{a}.in-addr.arpa"), Record::Pointer(name.to_owned()));
        }
    }
}
