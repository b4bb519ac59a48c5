#!/bin/sh
# Makes what a broker of epsilond, its server and its workers must share, in a new folder that only its owner can enter:
#
#   ca.pem, cert.pem, key.pem    an authority, and the certificate of the broker for these host names (broker)
#   definitions.json             a virtual host and users, for load_definitions of RabbitMQ
#   broker.env                   the secret of its nodes
#   server.env, worker.env       the URL of the broker with a user of their own
#   monitor.env                  the URL for who counts messages, such as KEDA
#
#   sh docker/cluster.sh FOLDER [HOST...]
#
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu

folder=${1:?usage: cluster.sh FOLDER [HOST...]}
shift
[ $# -gt 0 ] || set -- broker
host=$1

umask 077
mkdir "$folder"
cd "$folder"

secret() {
    openssl rand -hex 24
}
server=$(secret) worker=$(secret) monitor=$(secret)

names=
for name in "$@"; do
    names="$names${names:+,}DNS:$name"
done
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names" > extensions
key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $key -keyout ca.key -out ca.pem -days 3650 -subj "/CN=authority of epsilond" 2> /dev/null
openssl req $key -keyout key.pem -out request -subj "/CN=$host" 2> /dev/null
openssl x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 825 -extfile extensions \
    2> /dev/null
# Nobody can certify another broker.
rm -f ca.key ca.srl request extensions

rights='^(epsilond\\..*|amq\\.gen.*|amq\\.default)$'
user() {
    printf '{"name": "%s", "password": "%s", "tags": "%s"}' "$1" "$2" "$3"
}
permit() {
    printf '{"user": "%s", "vhost": "epsilond", "configure": "%s", "write": "%s", "read": "%s"}' "$1" "$2" "$2" "$2"
}
{
    printf '{"vhosts": [{"name": "epsilond"}],\n'
    printf ' "users": [%s,\n           %s,\n           %s],\n' "$(user server "$server" "")" \
        "$(user worker "$worker" "")" "$(user monitor "$monitor" monitoring)"
    printf ' "permissions": [%s,\n                 %s,\n                 %s]}\n' "$(permit server "$rights")" \
        "$(permit worker "$rights")" "$(permit monitor '^$')"
} > definitions.json

echo "RABBITMQ_ERLANG_COOKIE=$(secret)" > broker.env
echo "EPSILOND_BROKER=amqps://server:$server@$host:5671/epsilond" > server.env
echo "EPSILOND_BROKER=amqps://worker:$worker@$host:5671/epsilond" > worker.env
echo "KEDA_HOST=http://monitor:$monitor@$host:15672/epsilond" > monitor.env

# Containers run as users of their own. Others cannot enter the folder.
chmod 644 ca.pem cert.pem key.pem definitions.json
