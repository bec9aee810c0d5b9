//! `delete` and `remove`.

use gpun_core::{
    AssocId,
    accounting::{Association, Book, Change, change::Place},
};

use super::{
    Proposal, Stop, World,
    add::place_line,
    modify::{Condition, user_places},
    words::{Entity, Word, clauses, entity, unknown_condition},
};

/// What a `delete` would do.
///
/// # Errors
/// What is to be printed instead.
pub fn delete(world: &World, words: &[String]) -> Result<Proposal, Stop> {
    let Some(what) = words.first().and_then(|word| entity(word)) else { return Err(no_entity()) };
    let clauses = clauses(words.get(1..).unwrap_or_default());
    let words: Vec<Word> = clauses.condition.into_iter().chain(clauses.set).collect();
    match what {
        Entity::Account => accounts(world, &words),
        Entity::User => users(world, &words),
        Entity::Qos => qos(world, &words),
        Entity::Coordinator => coordinators(world, &words),
        Entity::Cluster => Err(Stop::err(
            "sacctmgr: error: the controller keeps the accounting of its own cluster: it can't be deleted\n",
        )),
        Entity::Federation | Entity::Resource | Entity::Wckey => Err(Stop::out(" Nothing deleted\n")),
        _ => Err(no_entity()),
    }
}

fn no_entity() -> Stop {
    Stop::err(
        "No valid entity in delete command\n\
         Input line must include \"Account\", \"Cluster\", \"Coordinator\",\n\
         \"Federation\", \"QOS\", \"Resource\", \"User\", or \"WCKey\"\n",
    )
}

fn nothing() -> Stop {
    Stop::out(" Nothing deleted\n")
}

fn need_conditions(kind: &str) -> Stop {
    Stop::err(format!(" No conditions given to remove {kind}, not executing.\n"))
}

fn lines(names: &[&str]) -> String {
    names.iter().map(|name| format!("  {name}\n")).collect()
}

/// An association in a refusal.
fn refused_line(cluster: &str, account: &str, user: &str) -> String {
    format!("  C = {cluster:<15.15} A = {account:<10.10} U = {user:<9.9}\n")
}

/// Refuses to take away associations whose jobs have not ended.
fn check_idle<'a>(world: &World, gone: impl Iterator<Item = &'a Association>) -> Result<(), Stop> {
    let active = |id: AssocId| world.active.contains(&id);
    let lines: String = gone
        .filter(|one| one.user.is_some() && active(one.id))
        .map(|one| refused_line(&world.cluster, &one.account, one.user.as_deref().unwrap_or_default()))
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(Stop::err(format!(
        " Error with request: Job(s) active, cancel job(s) before remove\n{lines} Changes Discarded\n"
    )))
}

const DEFAULT_ACCOUNT: &str = " Error with request: You can not remove the default account of a user\n";

fn accounts(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let condition = Condition::read(world, words)?;
    if condition.is_empty() {
        return Err(need_conditions("accounts"));
    }
    let book = &world.book;
    let any = |list: &[String], name: &str| list.is_empty() || list.iter().any(|one| one == name);
    let meant: Vec<&str> = book
        .accounts()
        .filter(|one| {
            any(&condition.names, &one.name)
                && any(&condition.accounts, &one.name)
                && any(&condition.parents, one.parent.as_deref().unwrap_or_default())
                && any(&condition.descriptions, &one.description.to_lowercase())
                && any(&condition.organizations, &one.organization.to_lowercase())
        })
        .map(|one| one.name.as_str())
        .collect();
    if meant.is_empty() {
        return Err(nothing());
    }
    let gone: Vec<&str> = meant.iter().flat_map(|name| book.below(name)).collect();
    let is_gone = |account: &Option<String>| account.as_deref().is_some_and(|one| gone.contains(&one));
    let held: String = book
        .users()
        .filter(|user| is_gone(&user.default_account))
        .map(|user| refused_line(&world.cluster, user.default_account.as_deref().unwrap_or_default(), &user.name))
        .collect();
    if !held.is_empty() {
        return Err(Stop::err(format!(
            "{DEFAULT_ACCOUNT}{held} Please either remove the accounts listed above from list and resubmit,\n \
             or change these users' default accounts to remove the account(s).\n Changes Discarded\n"
        )));
    }
    check_idle(world, gone.iter().flat_map(|name| book.associations_in(name)).map(|one| &**one))?;
    // One below another goes with it.
    let below = |name: &str| meant.iter().any(|other| *other != name && book.below(other).contains(&name));
    let changes =
        meant.iter().filter(|name| !below(name)).map(|name| Change::RemoveAccount { name: (*name).to_owned() });
    Ok(Proposal {
        text: format!(" Deleting accounts...\n{}", lines(&meant)),
        changes: changes.collect(),
        trouble: " Error with request: ",
    })
}

fn has_other_place(book: &Book, user: &str, account: &str, gone: &[Place]) -> bool {
    book.associations_of(user).any(|one| {
        one.account == account
            && !gone.iter().any(|place| {
                place.user.as_deref() == Some(user) && place.account == account && place.partition == one.partition
            })
    })
}

fn users(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let condition = Condition::read(world, words)?;
    if condition.is_empty() {
        return Err(need_conditions("users"));
    }
    let book = &world.book;
    let names: Vec<&String> = condition.names.iter().chain(&condition.users).collect();
    let default = |one: &gpun_core::accounting::User| {
        let account = one.default_account.as_deref().unwrap_or_default();
        condition.default_accounts.is_empty() || condition.default_accounts.iter().any(|name| name == account)
    };
    let meant: Vec<&str> = book
        .users()
        .filter(|one| (names.is_empty() || names.contains(&&one.name)) && default(one))
        .map(|one| one.name.as_str())
        .collect();
    if condition.accounts.is_empty() && condition.partitions.is_empty() {
        if meant.is_empty() {
            return Err(nothing());
        }
        check_idle(world, meant.iter().flat_map(|name| book.associations_of(name)).map(|one| &**one))?;
        return Ok(Proposal {
            text: format!(" Deleting users...\n{}", lines(&meant)),
            changes: meant.iter().map(|name| Change::RemoveUser { name: (*name).to_owned() }).collect(),
            trouble: " Error with request: ",
        });
    }
    let places = user_places(book, &meant, &condition);
    if places.is_empty() {
        return Err(nothing());
    }
    let held: String = places
        .iter()
        .filter_map(|place| {
            let user = book.user(place.user.as_deref()?)?;
            let is_default = user.default_account.as_ref() == Some(&place.account);
            (is_default && !has_other_place(book, &user.name, &place.account, &places))
                .then(|| refused_line(&world.cluster, &place.account, &user.name))
        })
        .collect();
    if !held.is_empty() {
        return Err(Stop::err(format!(
            "{DEFAULT_ACCOUNT}{held} You must change the default account of these users or remove the users completely from \
             the affected clusters to allow these changes.\n Changes Discarded\n"
        )));
    }
    check_idle(world, places.iter().filter_map(|place| book.at(place)).map(|one| &**one))?;
    let text: String = places.iter().map(|place| place_line(&world.cluster, place)).collect();
    Ok(Proposal {
        text: format!(" Deleting user associations...\n{text}"),
        changes: places.into_iter().map(|place| Change::RemoveAssociation { place }).collect(),
        trouble: " Error with request: ",
    })
}

fn qos(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let mut names = Vec::new();
    for word in words {
        if word.key.is_empty() || word.is("names", 1) {
            names.extend(word.names());
        } else {
            return Err(unknown_condition(word));
        }
    }
    if names.is_empty() {
        return Err(need_conditions("qos"));
    }
    let meant: Vec<&str> =
        world.book.all_qos().map(|one| one.name.as_str()).filter(|name| names.iter().any(|one| one == name)).collect();
    if meant.is_empty() {
        return Err(nothing());
    }
    Ok(Proposal {
        text: format!(" Deleting QOS(s)...\n{}", lines(&meant)),
        changes: meant.iter().map(|name| Change::RemoveQos { name: (*name).to_owned() }).collect(),
        trouble: " Error with request: ",
    })
}

fn coordinators(world: &World, words: &[Word]) -> Result<Proposal, Stop> {
    let condition = Condition::read(world, words)?;
    let names: Vec<&String> = condition.names.iter().chain(&condition.users).collect();
    if names.is_empty() && condition.accounts.is_empty() {
        return Err(Stop::err(" You need to specify a user or account to remove a coordinator\n"));
    }
    let mut changes = Vec::new();
    for user in world.book.users().filter(|user| names.is_empty() || names.contains(&&user.name)) {
        let of = |account: &&String| condition.accounts.is_empty() || condition.accounts.contains(account);
        changes.extend(
            user.coordinates
                .iter()
                .filter(of)
                .map(|account| Change::RemoveCoordinator { account: account.clone(), user: user.name.clone() }),
        );
    }
    if changes.is_empty() {
        return Err(nothing());
    }
    let list = |names: &[String]| names.iter().map(|name| format!("  {name}\n")).collect::<String>();
    let users: Vec<String> = names.into_iter().cloned().collect();
    let who = if users.is_empty() { "  All users\n".to_owned() } else { list(&users) };
    let whence = if condition.accounts.is_empty() {
        " From all accounts\n".to_owned()
    } else {
        format!(" From Account(s)\n{}", list(&condition.accounts))
    };
    Ok(Proposal {
        text: format!(" Removing Coordinators with user name\n{who}{whence}"),
        changes,
        trouble: " Error with request: ",
    })
}
