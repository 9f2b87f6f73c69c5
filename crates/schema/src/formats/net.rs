//! Formats of network addresses and names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address; leading zeros are accepted, as upstream does.
pub(super) fn is_ipv4(text: &str) -> bool {
    sloppy_ipv4(text).is_some() || (text.contains('.') && text.parse::<Ipv6Addr>().is_ok())
}

/// An IPv6 address without a zone.
pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// An address with a prefix length.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let address = sloppy_ipv4(address).map(IpAddr::from).or_else(|| address.parse().ok());
    let max = match address {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => return false,
    };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|n| n <= max)
}

fn sloppy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        let part = parts.next().filter(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))?;
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// 6, 8 or 20 bytes in hex, in pairs parted by colons or dashes, or in fours parted by points.
pub(super) fn is_mac(text: &str) -> bool {
    let Some(mark) = text.chars().find(|c| !c.is_ascii_hexdigit()) else {
        return false;
    };
    let width = match mark {
        ':' | '-' => 2,
        '.' => 4,
        _ => return false,
    };
    let groups: Vec<&str> = text.split(mark).collect();
    let whole = groups.iter().all(|g| g.len() == width && g.bytes().all(|b| b.is_ascii_hexdigit()));
    whole && matches!(groups.len() * width / 2, 6 | 8 | 20)
}

/// A host name of labels up to 63 characters; beyond one label the last has letters only.
pub(super) fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let (last, before) = labels.split_last().expect("splitting gives at least one part");
    let word = |c: char| c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphabetic());
    let label = |l: &&str| {
        !l.is_empty()
            && l.len() <= 63
            && l.starts_with(word)
            && l.ends_with(word)
            && l.chars().all(|c| word(c) || c == '-')
    };
    let top = before.is_empty() || (last.chars().count() >= 2 && last.chars().all(char::is_alphabetic));
    text.len() <= 255 && labels.iter().all(label) && top
}

/// `name@host`, or a display name followed by that in angle brackets.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.rsplit_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let dotted = |part: &str, extra: &str| {
        part.split('.').all(|atom| {
            !atom.is_empty()
                && atom.chars().all(|c| c.is_ascii_alphanumeric() || !c.is_ascii() || extra.contains(c))
        })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    const ATOM: &str = "!#$%&'*+-/=?^_`{|}~";
    (quoted || dotted(local, ATOM)) && dotted(domain, ATOM)
}

/// An absolute URI with a scheme, or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    let bad = |c: char| c.is_ascii_control() || c == ' ';
    if text.is_empty() || text.contains(bad) || !escapes_are_whole(text) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    named && !rest.is_empty() && port_is_number(rest)
}

fn escapes_are_whole(text: &str) -> bool {
    let path = text.split('?').next().unwrap_or_default();
    path.split('%')
        .skip(1)
        .all(|after| after.len() >= 2 && after.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

fn port_is_number(rest: &str) -> bool {
    let Some(authority) = rest.strip_prefix("//") else {
        return true;
    };
    let host = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let after_bracket = host.rsplit(']').next().unwrap_or_default();
    match after_bracket.rsplit_once(':') {
        Some((_, port)) => port.bytes().all(|b| b.is_ascii_digit()),
        None => true,
    }
}
