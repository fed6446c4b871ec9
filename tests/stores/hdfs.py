"""Tables in HDFS: a name node and a data node of this machine.

    tests/stores/hdfs
"""

import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import tables

# A file has several blocks.
SETTINGS = {
    "dfs.replication": "1",
    "dfs.blocksize": "1048576",
    "dfs.namenode.fs-limits.min-block-size": "1",
    "dfs.permissions.enabled": "false",
    "dfs.webhdfs.enabled": "false",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
}
# What Hadoop 2.7 looks into, and later versions of Java keep to themselves.
OPEN = ["java.base/java.lang", "java.base/java.util", "java.base/java.nio", "java.security.jgss/sun.security.krb5"]
LOG = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.SimpleLayout
"""


def configure(folder, settings):
    folder.mkdir(exist_ok=True)
    properties = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    for name in ["core-site.xml", "hdfs-site.xml"]:
        (folder / name).write_text(f"<configuration>{properties}</configuration>")


class Hadoop:
    """Programs of Hadoop, in a folder of their own."""

    def __init__(self, jars, folder):
        self.folder = folder
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            self.root = f"hdfs://127.0.0.1:{port.getsockname()[1]}"
        conf = folder / "conf"
        for name in ["hdfs", "datanode"]:
            # The pages that the nodes show, which the package does not have.
            (conf / "webapps" / name / "WEB-INF").mkdir(parents=True)
            (conf / "webapps" / name / "WEB-INF" / "web.xml").write_text("<web-app/>")
        (conf / "log4j.properties").write_text(LOG)
        configure(conf, {**SETTINGS, "fs.defaultFS": self.root, "hadoop.tmp.dir": str(folder / "data")})
        self.nodes = []
        opened = [option for package in OPEN for option in ("--add-opens", f"{package}=ALL-UNNAMED")]
        exported = ["--add-exports", "java.security.jgss/sun.security.krb5=ALL-UNNAMED"]
        self.java = ["java", "-Xmx256m", *opened, *exported, "-cp", f"{conf}:{jars}/*"]

    def run(self, *arguments):
        done = subprocess.run([*self.java, *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{arguments}: {done.stdout}\n{done.stderr}")
        return done.stdout

    def start(self, node, ready):
        """Starts a node and waits until it says that it is ready."""
        log = self.folder / f"{node.split('.')[-1]}.log"
        process = subprocess.Popen([*self.java, node], stdout=log.open("w"), stderr=subprocess.STDOUT)
        self.nodes.append(process)
        for _ in range(120):
            if ready in log.read_text():
                return
            if process.poll() is not None:
                break
            time.sleep(0.5)
        sys.exit(f"{node} did not start:\n{log.read_text()}")

    def files(self, *arguments):
        """The file system's own command line."""
        return self.run("org.apache.hadoop.fs.FsShell", *arguments)


def check(hadoop):
    # A name service of two name nodes, the first of which is not there, and a view of one folder and of all others.
    configure(
        hadoop.folder / "client",
        {
            "fs.defaultFS": hadoop.root,
            "dfs.nameservices": "pond",
            "dfs.ha.namenodes.pond": "gone,here",
            "dfs.namenode.rpc-address.pond.gone": "127.0.0.1:1",
            "dfs.namenode.rpc-address.pond.here": hadoop.root.removeprefix("hdfs://"),
            "fs.viewfs.mounttable.all.link./view": f"{hadoop.root}/lake",
            "fs.viewfs.mounttable.all.linkFallback": hadoop.root,
        },
    )
    # A data node that has just begun reports blocks late, and the client of the shell does not ask again for a block where Hadoop's own does.
    blocks = hadoop.folder / "blocks"
    blocks.write_bytes(bytes(int(SETTINGS["dfs.blocksize"]) * 8))
    hadoop.files("-put", str(blocks), f"{hadoop.root}/blocks")
    shell = tables.Shell({"HADOOP_CONF_DIR": str(hadoop.folder / "client"), "HADOOP_USER_NAME": "somebody"})
    tables.check(shell, f"{hadoop.root}/lake")
    # What arrived is a file for others, too; and one that others put there is read.
    here = hadoop.folder / "one.fermion"
    hadoop.files("-get", f"{hadoop.root}/lake/fermion/one.fermion", str(here))
    subprocess.run([shell.program, "verify", str(here)], check=True, capture_output=True)
    cut = hadoop.folder / "cut.fermion"
    cut.write_bytes(here.read_bytes()[:-1])
    for file in [here, cut]:
        hadoop.files("-put", str(file), f"{hadoop.root}/")
    tables.same("put by others", shell(f"SELECT count(*) AS count FROM '{hadoop.root}/one.fermion'"), f'{{"count":{tables.ROWS}}}\n')
    tables.missing(shell, hadoop.root, ["cut", "none"])
    # By the names of the configuration.
    for place in ["hdfs://pond/lake/named.fermion", "hdfs:///lake/default.fermion", "viewfs://all/view/viewed.fermion"]:
        shell(f"COPY (SELECT value FROM generate_series(1, 10)) TO '{place}' STORED AS FERMION")
        name = place.split("/")[-1]
        for found in [place, f"{hadoop.root}/lake/{name}"]:
            tables.same(found, shell(f"SELECT sum(abs(value)) AS sum FROM '{found}'"), '{"sum":55}\n')
    # What is being written, whole or not, and what is no file of the format, is not of the table.
    hadoop.files("-mkdir", f"{hadoop.root}/folder")
    for file, name in [(here, "a.fermion"), (here, ".b.fermion.tmp.1"), (cut, ".c.fermion.tmp.2"), (cut, "d.fermion._COPYING_"), (cut, "notes.txt")]:
        hadoop.files("-put", str(file), f"{hadoop.root}/folder/{name}")
    create = f"CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION '{hadoop.root}/folder/'"
    tables.same("a folder", shell(f"{create}; SELECT count(*) AS count FROM t"), f'{{"count":{tables.ROWS}}}\n')
    # Errors say where.
    hadoop.files("-mkdir", f"{hadoop.root}/taken.fermion")
    for sql, said in [
        (f"COPY (SELECT * FROM generate_series(1, 3000000)) TO '{hadoop.root}/taken.fermion' STORED AS FERMION", "taken.fermion"),
        ("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION 'hdfs://127.0.0.1:1/t.fermion'", "hdfs://127.0.0.1:1"),
        ("CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION 'viewfs://nothing/t.fermion'", "HADOOP_CONF_DIR"),
    ]:
        failed = shell.attempt(sql)
        if failed.returncode == 0 or said not in failed.stderr:
            sys.exit(f"{sql}: {failed}")
    # No stripe lies in more blocks than it has to, which is one.
    place = f"{hadoop.root}/aligned.fermion"
    shell(f"COPY (SELECT random() AS r FROM generate_series(1, 600000)) TO '{place}' STORED AS FERMION OPTIONS ('fermion.stripe_rows' '50000', 'fermion.stripe_alignment' '1048576')")
    crossed = 'SELECT count(*) AS crossed FROM (SELECT stripe, min("offset") AS first, max("offset" + bytes) - 1 AS last FROM fermion_pages'
    where = "WHERE stripe IS NOT NULL GROUP BY stripe) WHERE first / 1048576 <> last / 1048576"
    tables.same("aligned", shell(f"{crossed}('{place}') {where}"), '{"crossed":0}\n')
    block, length = hadoop.files("-stat", "%o %b", place).splitlines()[-1].split()
    if int(block) != 1048576 or int(length) < 3 * int(block):
        sys.exit(f"{length} bytes in blocks of {block}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        hadoop = Hadoop(sys.argv[2], pathlib.Path(folder))
        try:
            hadoop.run("org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-nonInteractive")
            hadoop.start("org.apache.hadoop.hdfs.server.namenode.NameNode", "NameNode RPC up")
            hadoop.start("org.apache.hadoop.hdfs.server.datanode.DataNode", "Successfully sent block report")
            check(hadoop)
        finally:
            for node in hadoop.nodes:
                node.kill()
                node.wait()


if __name__ == "__main__":
    # Whatever ends it, the nodes end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
