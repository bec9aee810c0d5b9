//! `dump`: all accounts, users and associations as a file that `load` reads.

use gpun_core::accounting::{AdminLevel, Association, Book, Fairshare, ROOT, Rule, change::Place};

use super::{
    limit,
    show::{admin_name, qos_names},
};

/// How such a file is written, for those who edit it.
const HEAD: &str = "\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
# Followed by Accounts you want in this fashion (root is created by default)...
# Parent - 'root'
# Account - 'cs':MaxTRESPerJob=node=5:MaxJobs=4:MaxTRESMinsPerJob=cpu=20:FairShare=399:MaxWallDurationPerJob=40:Description='Computer Science':Organization='LC'
# Any of the options after a ':' can be left out and they can be in any order.
# If you want to add any sub accounts just list the Parent THAT HAS ALREADY
# BEEN CREATED before the account line in this fashion...
# Parent - 'cs'
# Account - 'test':MaxTRESPerJob=node=1:MaxJobs=1:MaxTRESMinsPerJob=cpu=1:FairShare=1:MaxWallDurationPerJob=1:Description='Test Account':Organization='Test'
# To add users to a account add a line like this after a Parent - 'line'
# User - 'lipari':MaxTRESPerJob=node=2:MaxJobs=3:MaxTRESMinsPerJob=cpu=4:FairShare=1:MaxWallDurationPerJob=1
";

/// Names of limits in the file, in this order.
const LIMITS: &[(&str, Rule)] = &[
    ("GrpTRESMins", Rule::GrpTresMin),
    ("GrpTRESRunMins", Rule::GrpTresRunMin),
    ("GrpTRES", Rule::GrpTres),
    ("GrpJobs", Rule::GrpJobs),
    ("GrpJobsAccrue", Rule::GrpJobsAccrue),
    ("GrpSubmitJobs", Rule::GrpSubmit),
    ("GrpWall", Rule::GrpWallMin),
    ("MaxTRESMinsPerJob", Rule::MaxTresMin),
    ("MaxTRESPerJob", Rule::MaxTres),
    ("MaxTRESPerNode", Rule::MaxTresPerNode),
    ("MaxJobs", Rule::MaxJobs),
    ("MaxJobsAccrue", Rule::MaxJobsAccrue),
    ("MaxSubmitJobs", Rule::MaxSubmit),
    ("MaxWallDurationPerJob", Rule::MaxWallMin),
    ("MinPrioThresh", Rule::MinPriority),
];

/// The file's comment, and its lines.
pub fn dump(book: &Book, cluster: &str) -> (&'static str, Vec<String>) {
    let mut lines = Vec::new();
    let own = |account: &str| book.at(&Place { account: account.to_owned(), ..Place::default() });
    let root = own(ROOT).map(|one| settings(book, one)).unwrap_or_default();
    lines.push(format!("Cluster - '{cluster}'{root}"));
    let mut open = vec![ROOT];
    while let Some(parent) = open.pop() {
        let mut block = Vec::new();
        for one in book.associations_in(parent) {
            if let Some(user) = one.user.as_deref() {
                block.push(user_line(book, user, one));
            }
        }
        let children: Vec<&str> = book.children(parent).collect();
        for account in book.children(parent).filter_map(|name| book.account(name)) {
            let rest = own(&account.name).map(|one| settings(book, one)).unwrap_or_default();
            let (name, description, organization) = (&account.name, &account.description, &account.organization);
            block.push(format!("Account - '{name}':Description='{description}':Organization='{organization}'{rest}"));
        }
        if !block.is_empty() {
            lines.push(format!("Parent - '{parent}'"));
            lines.append(&mut block);
        }
        open.extend(children.into_iter().rev());
    }
    (HEAD, lines)
}

fn user_line(book: &Book, name: &str, one: &Association) -> String {
    let mut line = format!("User - '{name}'");
    if let Some(partition) = &one.partition {
        line.push_str(&format!(":Partition='{partition}'"));
    }
    if let Some(user) = book.user(name) {
        if let Some(account) = &user.default_account {
            line.push_str(&format!(":DefaultAccount='{account}'"));
        }
        if let Some(key) = &user.default_wckey {
            line.push_str(&format!(":DefaultWCKey='{key}'"));
        }
        if user.admin != AdminLevel::None {
            line.push_str(&format!(":AdminLevel='{}'", admin_name(user.admin)));
        }
        if !user.coordinates.is_empty() {
            line.push_str(&format!(":Coordinator='{}'", user.coordinates.join(",")));
        }
    }
    line + &settings(book, one)
}

fn settings(book: &Book, one: &Association) -> String {
    let mut out = String::new();
    match one.fairshare {
        Fairshare::Shares(shares) => out.push_str(&format!(":Fairshare={shares}")),
        Fairshare::Parent => out.push_str(":Fairshare=parent"),
    }
    for (name, rule) in LIMITS {
        let shown = limit::show(&one.limits, *rule);
        if !shown.is_empty() {
            out.push_str(&format!(":{name}={}", quoted(&shown)));
        }
    }
    if let Some(priority) = one.priority {
        out.push_str(&format!(":Priority={priority}"));
    }
    if let Some(qos) = one.default_qos.and_then(|id| book.qos(id)) {
        out.push_str(&format!(":DefaultQOS='{}'", qos.name));
    }
    let signed = |sign: &str, ids| -> Vec<String> {
        qos_names(book, ids).into_iter().map(|name| format!("{sign}{name}")).collect()
    };
    let exactly = one.qos.exactly.as_deref().unwrap_or_default();
    let (plus, minus) = if exactly.is_empty() { ("+", "-") } else { ("", "-") };
    let mut names = signed("", exactly);
    names.extend(signed(plus, &one.qos.added));
    names.extend(signed(minus, &one.qos.removed));
    if !names.is_empty() {
        out.push_str(&format!(":QOS='{}'", names.join(",")));
    }
    out
}

/// A colon ends a setting: a value with one stands in quotes.
fn quoted(value: &str) -> String {
    if value.contains(':') { format!("'{value}'") } else { value.to_owned() }
}
