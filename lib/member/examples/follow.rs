//! Prints the size of a pool, now and at each change, until the pool is destroyed. `cargo run -p millpond-member --example follow -- [POOL]`

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use millpond_member::{MemberError, Subscription};

fn main() -> Result<(), MemberError> {
    let mut pool = match std::env::args().nth(1) {
        Some(name) => Subscription::to(&name)?,
        None => Subscription::of_own()?,
    };
    loop {
        match pool.wait(None) {
            Ok(Some(size)) => println!("{}: {} processors, {}", pool.pool(), size.size(), size.cpus),
            Ok(None) => {}
            Err(MemberError::Ended(name)) => {
                println!("{name} is gone");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}
