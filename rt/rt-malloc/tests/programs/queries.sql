-- A hundred thousand rows with indices, joins, windows, deletions, and a vacuum. The output is always the same.
create table t (id integer primary key, name text, v real, k int);
with recursive c (x) as (select 1 union all select x + 1 from c where x < 100000)
insert into t select x, 'name' || (x * 7919 % 100003), x * 1.5, x % 977 from c;
create index tn on t (name);
create index tk on t (k, v);
create table u as select k, count(*) n, group_concat(substr(name, 5, 3)) g from t group by k;
select count(*), sum(length(g)) from u;
select sum(a.v) from t a join t b on a.id = b.k join u on u.k = b.k where a.id % 3 = 0;
select name, rank() over (partition by k order by v desc) r from t where k < 3 order by 2, 1 limit 10;
delete from t where id % 5 = 0;
update t set name = upper(name) || 'x' where k % 2;
vacuum;
pragma integrity_check;
select count(distinct name), sum(v) from t;
with recursive s (i, t) as (select 1, 'x' union all select i + 1, t || i from s where i < 300)
select length(max(t)) from s;
