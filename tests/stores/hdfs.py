"""Tables in HDFS: a name node and a data node of this machine.

    tests/stores/hdfs
"""

import pathlib
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
        settings = {**SETTINGS, "fs.defaultFS": self.root, "hadoop.tmp.dir": str(folder / "data")}
        properties = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        for name in ["core-site.xml", "hdfs-site.xml"]:
            (conf / name).write_text(f"<configuration>{properties}</configuration>")
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
        for _ in range(120):
            if ready in log.read_text():
                return process
            if process.poll() is not None:
                break
            time.sleep(0.5)
        process.kill()
        sys.exit(f"{node} did not start:\n{log.read_text()}")

    def files(self, *arguments):
        """The file system's own command line."""
        return self.run("org.apache.hadoop.fs.FsShell", *arguments)


def check(hadoop):
    shell = tables.Shell({})
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
        nodes = []
        try:
            hadoop.run("org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-nonInteractive")
            nodes.append(hadoop.start("org.apache.hadoop.hdfs.server.namenode.NameNode", "NameNode RPC up"))
            nodes.append(hadoop.start("org.apache.hadoop.hdfs.server.datanode.DataNode", "Successfully sent block report"))
            check(hadoop)
        finally:
            for node in nodes:
                node.kill()
                node.wait()


if __name__ == "__main__":
    main()
