//! `show` and `list`.

use gpun_core::{
    QosId,
    accounting::{
        Account, AdminLevel, Association, Book, Fairshare, Limits, Qos, ROOT, Rule, Tres, User, change::Place,
    },
};

use super::{
    Stop, World,
    columns::{self, Key, QosKey},
    limit, settings,
    table::{self, Chosen, Column, Style},
    words::{Entity, Word, clauses, unknown_condition},
};
use crate::time;

/// What a list is filtered by and how it is printed.
#[derive(Debug, Clone, Default)]
struct Asked {
    accounts: Vec<String>,
    users: Vec<String>,
    partitions: Vec<String>,
    names: Vec<String>,
    parents: Vec<String>,
    ids: Vec<String>,
    qos: Vec<String>,
    descriptions: Vec<String>,
    organizations: Vec<String>,
    admin: Option<AdminLevel>,
    default_accounts: Vec<String>,
    format: String,
    associations: bool,
    coordinators: bool,
    tree: bool,
    /// Without what is taken over from accounts above.
    own_limits: bool,
    only_defaults: bool,
    clusters: Vec<String>,
}

/// What the options of the command say of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Look {
    /// Columns or parsable.
    pub style: Style,
    /// Without headings.
    pub bare: bool,
    /// `-s`: with associations.
    pub associations: bool,
}

const FLAGS: &[(&str, usize)] = &[
    ("tree", 4),
    ("withassocs", 5),
    ("withcoordinators", 5),
    ("withdeleted", 5),
    ("withrawqoslevel", 5),
    ("withsubaccounts", 5),
    ("withfed", 5),
    ("withclusters", 5),
    ("wopinfo", 4),
    ("woplimits", 4),
    ("onlydefaults", 4),
];

fn ask(words: &[String], entity: Entity, look: Look) -> Result<Asked, Stop> {
    let mut asked = Asked { associations: look.associations, ..Asked::default() };
    for word in clauses(words).condition {
        if word.key.is_empty() {
            flag_or_name(&mut asked, &word, entity)?;
            continue;
        }
        let names = word.names();
        let word = if word.key == "acct" { Word { key: "account".to_owned(), ..word } } else { word };
        let list = [
            ("accounts", 2, &mut asked.accounts),
            ("users", 1, &mut asked.users),
            ("partitions", 3, &mut asked.partitions),
            ("parents", 4, &mut asked.parents),
            ("clusters", 1, &mut asked.clusters),
            ("ids", 1, &mut asked.ids),
            ("qoslevel", 1, &mut asked.qos),
            ("defaultaccounts", 8, &mut asked.default_accounts),
            ("descriptions", 3, &mut asked.descriptions),
            ("organizations", 1, &mut asked.organizations),
            ("names", 1, &mut asked.names),
        ];
        if word.is("format", 1) {
            asked.format.clone_from(&word.value);
        } else if word.is("adminlevel", 2) {
            asked.admin = admin_level(&word.value);
        } else if let Some((_, _, list)) = list.into_iter().find(|(name, least, _)| word.is(name, *least)) {
            list.extend(names);
        } else {
            return Err(unknown_condition(&word));
        }
    }
    Ok(asked)
}

fn flag_or_name(asked: &mut Asked, word: &Word, entity: Entity) -> Result<(), Stop> {
    let text = word.value.to_lowercase();
    match FLAGS.iter().find(|(name, least)| text.len() >= *least && name.starts_with(text.as_str())).map(|row| row.0) {
        Some("tree") => asked.tree = true,
        Some("withassocs") => asked.associations = true,
        Some("withcoordinators") => asked.coordinators = true,
        Some("woplimits") => asked.own_limits = true,
        Some("onlydefaults") => asked.only_defaults = true,
        Some(_) => {}
        None if matches!(entity, Entity::Account | Entity::User | Entity::Qos | Entity::Cluster) => {
            asked.names.extend(word.names());
        }
        None => return Err(unknown_condition(word)),
    }
    Ok(())
}

/// Reads an admin level.
pub fn admin_level(text: &str) -> Option<AdminLevel> {
    let text = text.to_lowercase();
    let levels =
        [("none", AdminLevel::None), ("operator", AdminLevel::Operator), ("administrator", AdminLevel::Administrator)];
    levels.into_iter().find(|(name, _)| !text.is_empty() && name.starts_with(text.as_str())).map(|(_, level)| level)
}

/// The name of an admin level.
pub fn admin_name(level: AdminLevel) -> &'static str {
    match level {
        AdminLevel::None => "None",
        AdminLevel::Operator => "Operator",
        AdminLevel::Administrator => "Administrator",
    }
}

fn any(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

/// A row of a table of records.
#[derive(Clone, Copy, Default)]
struct Row<'a> {
    account: Option<&'a Account>,
    user: Option<&'a User>,
    association: Option<&'a Association>,
    depth: usize,
}

/// Where the controller is.
#[derive(Debug, Clone, Default)]
pub struct Controller {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// What `show` prints.
///
/// # Errors
/// What is to be printed instead.
pub fn show(world: &World, words: &[String], look: Look, controller: &Controller) -> Result<String, Stop> {
    let entity = words.first().and_then(|word| super::words::entity(word)).ok_or_else(no_entity)?;
    let asked = ask(words.get(1..).unwrap_or_default(), entity, look)?;
    match entity {
        Entity::Association => associations(world, &asked, look),
        Entity::Account => accounts(world, &asked, look),
        Entity::User => users(world, &asked, look),
        Entity::Qos => qualities(world, &asked, look),
        Entity::Cluster => clusters(world, &asked, look, controller),
        Entity::Tres => texts(columns::TRES, &asked, look, tres_rows(world)),
        Entity::Wckey => texts(columns::WCKEY, &asked, look, Vec::new()),
        Entity::Problem => texts(columns::PROBLEM, &asked, look, problems(world)),
        Entity::Resource => texts(columns::RESOURCE, &asked, look, Vec::new()),
        Entity::Reservation => texts(columns::RESERVATION, &asked, look, Vec::new()),
        Entity::Federation => texts(columns::FEDERATION, &asked, look, Vec::new()),
        // There is one record of each job, the controller's own: none can be left over.
        Entity::RunawayJobs => Ok(format!("Runaway Jobs: No runaway jobs found on cluster {}\n", world.cluster)),
        Entity::Configuration => Err(not_kept("the configuration: see `scontrol show config`")),
        Entity::Event => Err(not_kept("events of nodes")),
        Entity::Stats => Err(not_kept("statistics of a database: there is none")),
        Entity::Transaction => Err(not_kept("a list of past changes")),
        Entity::Coordinator | Entity::Job => Err(no_entity()),
    }
}

fn not_kept(what: &str) -> Stop {
    Stop::err(format!("sacctmgr: error: gpunion does not keep {what}\n"))
}

fn no_entity() -> Stop {
    Stop::err(
        "No valid entity in list command\n\
         Input line must include \"Account\", \"Association\", \"Cluster\", \"Configuration\",\n\
         \"Event\", \"Federation\", \"Problem\", \"QOS\", \"Resource\", \"Reservation\",\n\
         \"RunAwayJobs\", \"Stats\", \"Transaction\", \"TRES\", \"User\", or \"WCKey\"\n",
    )
}

fn chosen<K: Copy>(columns: &[Column<K>], asked: &Asked, default: &str) -> Result<Vec<Chosen<K>>, Stop> {
    table::choose(columns, if asked.format.is_empty() { default } else { &asked.format })
}

fn texts(columns: &[Column<usize>], asked: &Asked, look: Look, rows: Vec<Vec<String>>) -> Result<String, Stop> {
    let all: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let chosen = chosen(columns, asked, &all.join(","))?;
    Ok(table::print(&chosen, rows, look.style, !look.bare, |row, at| row.get(at).cloned().unwrap_or_default()))
}

fn is_meant(world: &World, asked: &Asked, one: &Association) -> bool {
    let book = &world.book;
    let parent = book.account(&one.account).and_then(|account| account.parent.as_deref()).unwrap_or_default();
    let default = || {
        let user = one.user.as_deref().and_then(|user| book.user(user));
        user.is_some_and(|user| user.default_account.as_ref() == Some(&one.account))
    };
    let has_qos = || {
        let names = qos_names(book, &book.qos_of(one));
        asked.qos.iter().any(|name| names.contains(name))
    };
    any(&asked.accounts, &one.account)
        && any(&asked.clusters, &world.cluster.to_lowercase())
        && (asked.users.is_empty() || one.user.as_ref().is_some_and(|user| asked.users.contains(user)))
        && (asked.partitions.is_empty() || one.partition.as_ref().is_some_and(|name| asked.partitions.contains(name)))
        && any(&asked.parents, parent)
        && any(&asked.ids, &one.id.to_string())
        && (asked.qos.is_empty() || has_qos())
        && (!asked.only_defaults || default())
}

fn associations(world: &World, asked: &Asked, look: Look) -> Result<String, Stop> {
    let mut chosen = chosen(columns::RECORDS, asked, columns::ASSOCIATION)?;
    if asked.tree {
        chosen.iter_mut().filter(|column| column.key == Key::Account).for_each(|column| {
            column.width = columns::TREE_ACCOUNT_WIDTH;
        });
    }
    let tree = world.book.tree();
    let rows = tree.iter().filter(|(_, one)| is_meant(world, asked, one)).map(|(depth, one)| Row {
        account: world.book.account(&one.account).map(|shared| &**shared),
        association: Some(one),
        depth: *depth,
        user: None,
    });
    Ok(table::print(&chosen, rows, look.style, !look.bare, |row, key| cell(world, asked, row, key)))
}

/// True if a format asks for what only associations have.
fn wants_associations(asked: &Asked, chosen: &[Chosen<Key>], plain: &[Key]) -> bool {
    asked.associations || (!asked.format.is_empty() && chosen.iter().any(|column| !plain.contains(&column.key)))
}

fn accounts(world: &World, asked: &Asked, look: Look) -> Result<String, Stop> {
    const PLAIN: &[Key] = &[Key::Account, Key::Description, Key::Organization, Key::Coordinators];
    let mut default = columns::ACCOUNT.to_owned();
    if asked.coordinators {
        default.push_str(",coord");
    }
    if asked.associations {
        default = format!("{default},{}", columns::ACCOUNT_ASSOCIATIONS);
    }
    let chosen = chosen(columns::RECORDS, asked, &default)?;
    let book = &world.book;
    let meant = |account: &&gpun_core::Shared<Account>| {
        any(&asked.names, &account.name)
            && any(&asked.accounts, &account.name)
            && any(&asked.descriptions, &account.description.to_lowercase())
            && any(&asked.organizations, &account.organization.to_lowercase())
    };
    let all = book.accounts().filter(meant);
    let rows: Vec<Row<'_>> = if wants_associations(asked, &chosen, PLAIN) {
        let narrow = Asked { names: Vec::new(), ..asked.clone() };
        let row = |account, one| Row { account: Some(account), association: Some(one), ..Row::default() };
        all.flat_map(|account| {
            let own = book.associations_in(&account.name).filter(|one| is_meant(world, &narrow, one));
            own.map(move |one| row(&**account, &**one))
        })
        .collect()
    } else {
        all.map(|account| Row { account: Some(account), ..Row::default() }).collect()
    };
    Ok(table::print(&chosen, rows, look.style, !look.bare, |row, key| cell(world, asked, row, key)))
}

fn users(world: &World, asked: &Asked, look: Look) -> Result<String, Stop> {
    const PLAIN: &[Key] =
        &[Key::User, Key::Admin, Key::Coordinators, Key::DefaultAccount, Key::DefaultWckey, Key::Nothing];
    let mut default = columns::USER.to_owned();
    if asked.coordinators {
        default.push_str(",coord");
    }
    if asked.associations {
        default = format!("{default},{}", columns::USER_ASSOCIATIONS);
    }
    let chosen = chosen(columns::RECORDS, asked, &default)?;
    let book = &world.book;
    let by_associations = wants_associations(asked, &chosen, PLAIN);
    // The names of users are a filter of theirs, whatever the key is called.
    let narrow = Asked { users: Vec::new(), only_defaults: asked.only_defaults, ..asked.clone() };
    let filtered = !asked.accounts.is_empty() || !asked.partitions.is_empty() || !asked.qos.is_empty();
    let meant = |user: &&gpun_core::Shared<User>| {
        let default = user.default_account.as_deref().unwrap_or_default();
        any(&asked.names, &user.name)
            && any(&asked.users, &user.name)
            && any(&asked.default_accounts, default)
            && asked.admin.is_none_or(|level| level == user.admin)
            && (!filtered || book.associations_of(&user.name).any(|one| is_meant(world, &narrow, one)))
    };
    let all = book.users().filter(meant);
    let rows: Vec<Row<'_>> = if by_associations {
        let row = |user, one| Row { user: Some(user), association: Some(one), ..Row::default() };
        all.flat_map(|user| {
            // By default in the order in which they were made.
            let own = book.associations_of(&user.name).filter(|one| is_meant(world, &narrow, one));
            own.map(move |one| row(&**user, &**one))
        })
        .collect()
    } else {
        all.map(|user| Row { user: Some(user), ..Row::default() }).collect()
    };
    Ok(table::print(&chosen, rows, look.style, !look.bare, |row, key| cell(world, asked, row, key)))
}

fn clusters(world: &World, asked: &Asked, look: Look, controller: &Controller) -> Result<String, Stop> {
    let chosen = chosen(columns::RECORDS, asked, columns::CLUSTER)?;
    let cluster = world.cluster.to_lowercase();
    let meant = any(&asked.names, &cluster) && any(&asked.clusters, &cluster);
    let root = Place { account: ROOT.to_owned(), ..Place::default() };
    let row = Row { association: world.book.at(&root).map(|shared| &**shared), ..Row::default() };
    let value = |row: &Row<'_>, key| match key {
        Key::ControlHost => controller.host.clone(),
        Key::ControlPort => controller.port.to_string(),
        // The version of the protocol; nothing here speaks Slurm's.
        Key::Rpc => "0".to_owned(),
        key => cell(world, asked, row, key),
    };
    Ok(table::print(&chosen, meant.then_some(row), look.style, !look.bare, value))
}

/// Names of qualities of service, in the order of names.
pub fn qos_names(book: &Book, ids: &[QosId]) -> Vec<String> {
    let mut names: Vec<String> = ids.iter().filter_map(|id| book.qos(*id)).map(|qos| qos.name.clone()).collect();
    names.sort();
    names
}

fn number_of(limits: &Limits, rule: Rule, tres: &Tres) -> String {
    let found = limits.of(rule).find(|(of, _)| *of == Some(tres)).map(|(_, value)| value);
    match (found, tres) {
        (None, _) => String::new(),
        (Some(value), Tres::Memory) => crate::memory::exact(value),
        (Some(value), _) => value.to_string(),
    }
}

fn cell(world: &World, asked: &Asked, row: &Row<'_>, key: Key) -> String {
    let book = &world.book;
    let association = row.association;
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let limits = || match association {
        Some(one) if asked.own_limits => one.limits.clone(),
        Some(one) => book.limits_of(one),
        None => Limits::default(),
    };
    let user = || row.user.map(|user| user.name.as_str()).or_else(|| association?.user.as_deref());
    let of_user = || row.user.or_else(|| book.user(association?.user.as_deref()?).map(|shared| &**shared));
    match key {
        Key::Account => {
            let name = association.map(|one| one.account.as_str()).or_else(|| row.account.map(|one| one.name.as_str()));
            let indent = if asked.tree { " ".repeat(row.depth) } else { String::new() };
            format!("{indent}{}", name.unwrap_or_default())
        }
        Key::Description => text(row.account.map(|one| one.description.as_str())),
        Key::Organization => text(row.account.map(|one| one.organization.as_str())),
        Key::Coordinators => match (row.user, row.account) {
            (Some(user), _) => user.coordinates.join(","),
            (None, Some(account)) => {
                let names = book.users().filter(|user| user.coordinates.contains(&account.name));
                names.map(|user| user.name.clone()).collect::<Vec<_>>().join(",")
            }
            _ => String::new(),
        },
        Key::Cluster => world.cluster.clone(),
        Key::ParentName => match association {
            Some(one) if one.user.is_none() => text(book.account(&one.account).and_then(|one| one.parent.as_deref())),
            _ => String::new(),
        },
        Key::User => text(user()),
        Key::Partition => text(association.and_then(|one| one.partition.as_deref())),
        Key::Share => match association.map(|one| one.fairshare) {
            Some(Fairshare::Shares(shares)) => shares.to_string(),
            Some(Fairshare::Parent) => "parent".to_owned(),
            None => String::new(),
        },
        Key::Priority => association.and_then(|one| one.priority).map_or_else(String::new, |value| value.to_string()),
        Key::Limit(rule) => limit::show(&limits(), rule),
        Key::Cpus(rule) => number_of(&limits(), rule, &Tres::Cpu),
        Key::Memory(rule) => number_of(&limits(), rule, &Tres::Memory),
        Key::Nodes(rule) => number_of(&limits(), rule, &Tres::Node),
        Key::Qos => association.map_or_else(String::new, |one| qos_names(book, &book.qos_of(one)).join(",")),
        Key::DefaultQos => {
            let default = association.and_then(|one| book.default_qos_of(one)).and_then(|id| book.qos(id));
            text(default.map(|qos| qos.name.as_str()))
        }
        Key::DefaultAccount => text(of_user().and_then(|user| user.default_account.as_deref())),
        Key::DefaultWckey => text(of_user().and_then(|user| user.default_wckey.as_deref())),
        Key::Admin => text(of_user().map(|user| admin_name(user.admin))),
        Key::Id => association.map_or_else(String::new, |one| one.id.to_string()),
        Key::Lineage => association.map_or_else(String::new, |one| lineage(book, one)),
        Key::ControlHost | Key::ControlPort | Key::Rpc | Key::Nothing => String::new(),
    }
}

fn lineage(book: &Book, one: &Association) -> String {
    let mut line: Vec<&str> = book.line(&one.account).map(|account| account.name.as_str()).collect();
    line.retain(|name| *name != ROOT);
    line.reverse();
    let mut path = format!("/{}", line.iter().map(|name| format!("{name}/")).collect::<String>());
    if let Some(user) = &one.user {
        path.push_str(&format!("0-{user}/"));
    }
    path
}

fn qualities(world: &World, asked: &Asked, look: Look) -> Result<String, Stop> {
    let chosen = chosen(columns::QOS, asked, columns::QOS_ALL)?;
    let meant = |one: &&gpun_core::Shared<Qos>| {
        any(&asked.names, &one.name)
            && any(&asked.ids, &one.id.to_string())
            && any(&asked.descriptions, &one.description.to_lowercase())
    };
    let rows = world.book.all_qos().filter(meant);
    Ok(table::print(&chosen, rows, look.style, !look.bare, |one, key| qos_cell(&world.book, one, key)))
}

fn qos_cell(book: &Book, one: &Qos, key: QosKey) -> String {
    match key {
        QosKey::Name => one.name.clone(),
        QosKey::Id => one.id.to_string(),
        QosKey::Description => one.description.clone(),
        QosKey::Priority => one.priority.to_string(),
        QosKey::Grace => time::long(u64::from(one.grace_s)),
        QosKey::Preempt => qos_names(book, &one.preempt).join(","),
        QosKey::PreemptMode => settings::mode_name(one.preempt_mode).to_owned(),
        QosKey::PreemptExempt => one.preempt_exempt_s.map_or_else(String::new, |s| time::long(u64::from(s))),
        QosKey::Flags => settings::flag_names(&one.flags),
        QosKey::UsageFactor => settings::decimal(one.usage_factor_millionths),
        QosKey::UsageThreshold => one.usage_threshold_millionths.map_or_else(String::new, settings::decimal),
        QosKey::Limit(rule) => limit::show(&one.limits, rule),
        QosKey::Cpus(rule) => number_of(&one.limits, rule, &Tres::Cpu),
        QosKey::Nodes(rule) => number_of(&one.limits, rule, &Tres::Node),
    }
}

/// Resources that are counted. Numbers below 1000 are fixed; generic resources follow.
fn tres_rows(world: &World) -> Vec<Vec<String>> {
    const FIXED: [(&str, &str); 8] = [
        ("cpu", ""),
        ("mem", ""),
        ("energy", ""),
        ("node", ""),
        ("billing", ""),
        ("fs", "disk"),
        ("vmem", ""),
        ("pages", ""),
    ];
    let mut gres = Vec::new();
    for name in &world.gres {
        gres.push(name.clone());
        // Memory and use of GPUs are counted with them.
        if name == "gpu" {
            gres.extend(["gpumem".to_owned(), "gpuutil".to_owned()]);
        }
    }
    let fixed = FIXED.iter().zip(1..).map(|((kind, name), id)| (*kind, (*name).to_owned(), id));
    let generic = gres.into_iter().zip(1001..).map(|(name, id)| ("gres", name, id));
    fixed.chain(generic).map(|(kind, name, id)| vec![kind.to_owned(), name, id.to_string()]).collect()
}

fn problems(world: &World) -> Vec<Vec<String>> {
    let book = &world.book;
    let row = |account: &str, user: &str, what: &str| {
        vec![world.cluster.clone(), account.to_owned(), user.to_owned(), what.to_owned()]
    };
    let empty = book.accounts().filter(|account| {
        book.children(&account.name).next().is_none()
            && book.associations_in(&account.name).all(|one| one.user.is_none())
    });
    let mut rows: Vec<_> = empty.map(|account| row(&account.name, "", "Account has no users")).collect();
    rows.extend(
        book.users().filter(|user| user.uid.is_none()).map(|user| row("", &user.name, "User does not have a uid")),
    );
    rows
}
